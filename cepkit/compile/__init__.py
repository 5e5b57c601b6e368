"""Stages of compilation: bind, plan, write, load."""
