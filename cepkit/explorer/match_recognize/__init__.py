"""What the explorer shows of MATCH_RECOGNIZE: its automaton, its funnel, its reasons and its moments."""
