/* finance0 and 1 by hand in C, with the same algorithm as the generated kernels: arrival order, dense state per
   partition, position masks, earliest start kept where starts cannot be told apart.
   gcc -O3 -march=native -shared -fPIC twin.c -o twin.so */
#include <stdint.h>
#include <stdlib.h>

enum { CAPACITY = 64 }; /* live starts per partition; the callers check that it suffices (return value -1) */

typedef struct {
    int64_t *start, *first, *past, *live;
    uint8_t *mask;
} State;

static State new_state(int64_t n_partitions) {
    State s;
    s.start = malloc(n_partitions * CAPACITY * 8);
    s.first = malloc(n_partitions * CAPACITY * 8);
    s.mask = malloc(n_partitions * CAPACITY);
    s.past = malloc(n_partitions * 8);
    s.live = calloc(n_partitions, 8);
    for (int64_t k = 0; k < n_partitions; k++) s.past[k] = INT64_MIN;
    return s;
}

static void free_state(State s) {
    free(s.start), free(s.first), free(s.mask), free(s.past), free(s.live);
}

/* largeSize priceRise+ priceDrop */
int64_t finance0(int64_t n, const int32_t *partition, int64_t n_partitions, const int64_t *price, const int64_t *size,
                 int64_t least, int64_t *out_first, int64_t *out_last) {
    static const uint8_t FOLLOW[8] = {0, 2, 6, 6, 0, 2, 6, 6};
    State s = new_state(n_partitions);
    int64_t found = 0;
    for (int64_t j = 0; j < n; j++) {
        uint32_t k = partition[j];
        int64_t m = s.live[k], *start = s.start + k * CAPACITY, x = price[j], y = s.past[k], best = -1;
        uint8_t *mask = s.mask + k * CAPACITY;
        if (m >= CAPACITY) return -1;
        s.past[k] = x;
        unsigned e = (size[j] > least ? 7 : 6) & (x > y ? 7 : 5) & (x < y ? 7 : 3), covered = 0;
        uint32_t w = 0;
        for (uint32_t r = 0; r < m; r++) {
            unsigned f = FOLLOW[mask[r]] & e;
            f &= 7 ^ (covered & 3);
            covered |= f;
            if (f & 4) { best = start[r]; break; }
            start[w] = start[r], mask[w] = f;
            w += f != 0;
        }
        if (best >= 0) { out_first[found] = best, out_last[found++] = j, s.live[k] = 0; continue; }
        unsigned f = 1 & e;
        f &= 7 ^ (covered & 3);
        start[w] = j, mask[w] = f;
        s.live[k] = w + (f != 0);
    }
    free_state(s);
    return found;
}

/* . rise+ drop+ rise+ drop* deep */
int64_t finance1(int64_t n, const int32_t *partition, int64_t n_partitions, const int64_t *price, int64_t *out_first,
                 int64_t *out_last) {
    static const uint8_t STEP[6] = {2, 6, 12, 56, 48, 0};
    uint8_t FOLLOW[64];
    for (int q = 0; q < 64; q++) {
        FOLLOW[q] = 0;
        for (int p = 0; p < 6; p++)
            if (q >> p & 1) FOLLOW[q] |= STEP[p];
    }
    State s = new_state(n_partitions);
    int64_t found = 0;
    for (int64_t j = 0; j < n; j++) {
        uint32_t k = partition[j];
        int64_t m = s.live[k], *start = s.start + k * CAPACITY, *first = s.first + k * CAPACITY;
        int64_t x = price[j], y = s.past[k], best = -1;
        uint8_t *mask = s.mask + k * CAPACITY;
        if (m >= CAPACITY) return -1;
        s.past[k] = x;
        unsigned e = (x >= y ? 63 : 53) & (x < y ? 63 : 11);
        uint32_t w = 0;
        for (uint32_t r = 0; r < m; r++) {
            int64_t a = first[r];
            unsigned f = FOLLOW[mask[r]] & e & (x > a ? 63 : 53) & (x >= a ? 63 : 43) & (x < a ? 63 : 31);
            if (f & 32) { best = start[r]; break; }
            start[w] = start[r], mask[w] = f, first[w] = a;
            w += f != 0;
        }
        if (best >= 0) { out_first[found] = best, out_last[found++] = j, s.live[k] = 0; continue; }
        start[w] = j, mask[w] = 1, first[w] = x;
        s.live[k] = w + 1;
    }
    free_state(s);
    return found;
}
