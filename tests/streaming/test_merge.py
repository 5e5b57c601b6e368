"""The ordered merge: the order of one replica under any interleaving, and its bound on the delay."""

from collections import deque
from random import Random

import pytest

from cepkit.errors import OrderError
from cepkit.streaming.replicas import OrderedMerge
from tests.support.sizes import seeds


def outputs_and_replicas(rng, n_events, n_replicas):
    """Return for every position the replica of its event and whether it completes an output."""
    keys = [rng.randrange(5) for _ in range(n_events)]
    return [key % n_replicas for key in keys], [rng.random() < 0.3 for _ in range(n_events)]


@pytest.mark.parametrize("seed", seeds(12, 60))
def test_any_interleaving_gives_the_order_of_one_replica(seed):
    rng = Random(seed)
    n_events, n_replicas = rng.randint(0, 60), rng.randint(1, 5)
    replica_of_event, completes = outputs_and_replicas(rng, n_events, n_replicas)
    to_do = [deque(e for e in range(n_events) if replica_of_event[e] == r) for r in range(n_replicas)]
    merge, released = OrderedMerge(n_replicas), []
    while any(to_do):
        replica = rng.choice([r for r in range(n_replicas) if to_do[r]])
        event = to_do[replica].popleft()
        if completes[event]:
            merge.offer(replica, event, event)
        elif rng.random() < 0.3:
            merge.pulse(replica, event)
        if rng.random() < 0.5:
            released += merge.release()
            assert all(event not in released for queue in to_do for event in queue)
    for replica in range(n_replicas):
        merge.pulse(replica, n_events - 1)
    released += merge.release()
    assert released == [e for e in range(n_events) if completes[e]]
    assert len(merge) == 0


@pytest.mark.parametrize("seed", seeds(12, 60))
def test_an_output_waits_for_at_most_the_pulses_and_the_longest_queue(seed):
    rng = Random(seed)
    n_events, n_replicas, pulse_every = 200, rng.randint(1, 4), rng.randint(1, 20)
    replica_of_event, completes = outputs_and_replicas(rng, n_events, n_replicas)
    queues = [deque() for _ in range(n_replicas)]
    merge, waiting, longest = OrderedMerge(n_replicas), set(), 0

    def work(replica):
        position, is_pulse = queues[replica].popleft()
        if is_pulse:
            merge.pulse(replica, position)
        elif completes[position]:
            merge.offer(replica, position, position)

    for event in range(n_events):
        queues[replica_of_event[event]].append((event, False))
        if completes[event]:
            waiting.add(event)
        if (event + 1) % pulse_every == 0:
            for queue in queues:
                queue.append((event, True))
        while rng.random() < 0.7 and any(queues):
            work(rng.choice([r for r in range(n_replicas) if queues[r]]))
        released = merge.release()
        assert released == sorted(released) and waiting.issuperset(released)
        waiting.difference_update(released)
        longest = max(event - queue[0][0] + 1 if queue else 0 for queue in queues)
        assert all(event - output < pulse_every + longest for output in waiting)


def test_without_pulses_a_silent_replica_holds_everything_back():
    merge = OrderedMerge(2)
    for position in range(100):
        merge.offer(0, position, position)
    assert merge.release() == [] and len(merge) == 100
    merge.pulse(1, 59)
    assert merge.release() == list(range(60))


def test_what_was_promised_cannot_be_taken_back():
    merge = OrderedMerge(2)
    merge.pulse(1, 9)
    with pytest.raises(OrderError, match="replica 1 offers an output of position 9 after it has reached 9"):
        merge.offer(1, 9, "late")
    merge.pulse(1, 3)  # an old pulse changes nothing
    merge.offer(1, 10, "in time")
    merge.pulse(0, 10)
    assert merge.release() == ["in time"]
