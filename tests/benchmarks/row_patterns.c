/* The kernels of row patterns by hand in C, with the same algorithm: sets of states from the last row of a partition
   to the first one, then the preferred match from each row. The tables come from Python, with every cell known.
   gcc -O3 -march=native -shared -fPIC row_patterns.c -o row_patterns.so */
#include <stdint.h>

enum { MATCH = -1, NO_STATE = -2 };

void mark_places(int64_t n_places, const uint8_t *symbol, int64_t shift, const uint16_t *following, uint16_t *mark) {
    uint64_t now = 0; /* a symbol says which places are the last of a partition */
    for (int64_t i = n_places - 1; i >= 0; i--)
        mark[i] = now = following[now << shift | symbol[i]];
}

/* AFTER MATCH SKIP PAST LAST ROW. Returns the number of matches. */
int64_t find_matches(int64_t n_partitions, const int64_t *first_place, const uint16_t *mark, int64_t n_automaton,
                     const int16_t *choice, const int16_t *first_choice, int64_t *start, int64_t *end, int16_t *states) {
    int64_t n = 0, taken = 0;
    for (int64_t p = 0; p < n_partitions; p++) {
        int64_t low = first_place[p], stop = first_place[p + 1], i = low;
        while (i < stop) {
            int64_t state = first_choice[2 * mark[i] + (i == low)], begin = i;
            if (state == NO_STATE) {
                i++;
                continue;
            }
            while (state != MATCH) {
                states[taken++] = state;
                if (++i == stop) break;
                state = choice[mark[i] * n_automaton + state];
            }
            start[n] = begin, end[n++] = i;
            if (i == begin) i++;
        }
    }
    return n;
}
