"""What tests of frames on Spark share: a session with several tasks, and a block without jobs."""

from __future__ import annotations

import itertools
from contextlib import contextmanager

import pytest


@pytest.fixture(scope="module")
def session(spark):
    """A session with several tasks whatever the size."""
    wanted = {"spark.sql.adaptive.coalescePartitions.enabled": "false", "spark.sql.shuffle.partitions": "3"}
    before = {name: spark.conf.get(name) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    yield spark
    for name, value in before.items():
        spark.conf.set(name, value)


_group = itertools.count()


@pytest.fixture
def no_job(session):
    """A block that fails when a job of Spark starts in it."""

    @contextmanager
    def block():
        context, group = session.sparkContext, f"no job {next(_group)}"
        context.setJobGroup(group, group)
        yield
        started = context.statusTracker().getJobIdsForGroup(group)
        context.setJobGroup("", "")
        assert len(started) == 0

    return block
