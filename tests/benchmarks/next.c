/* SEQ(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x WITHIN w, strategy next, written by hand in C from columns:
   types 0, 1 and 2 are A, B and C, times rise, key has codes from 0 to n_keys - 1. It groups the events by key,
   and scans from each A to the first B that fits, and from there to the first C. */
#include <stdint.h>
#include <stdlib.h>

typedef int64_t i64;
typedef struct { i64 time, position; double x; int8_t type; } event;
typedef struct { i64 a, b, c; } match;

static event *grouped(i64 n, const int32_t *key, i64 n_keys, const int8_t *type, const i64 *time, const double *x, i64 *end) {
    event *of = malloc((n + 1) * sizeof *of);
    i64 *cursor = calloc(n_keys + 1, sizeof *cursor);
    for (i64 i = 0; i < n; i++) cursor[key[i] + 1]++;
    for (i64 k = 0; k < n_keys; k++) end[k] = cursor[k + 1] += cursor[k];
    for (i64 i = 0; i < n; i++) of[cursor[key[i]]++] = (event){time[i], i, x[i], type[i]};
    free(cursor);
    return of;
}

static inline i64 following(const event *of, i64 from, i64 end, i64 latest, int type, double above) {
    for (i64 j = from + 1; j < end && of[j].time <= latest; j++)
        if (of[j].type == type && of[j].x > above) return j;
    return end;
}

/* Returns the number of matches, and writes them to out unless it is NULL, in the order of the keys. */
static i64 found(const event *of, const i64 *end, i64 n_keys, i64 within, match *out) {
    i64 m = 0, first = 0;
    for (i64 k = 0; k < n_keys; first = end[k++])
        for (i64 a = first; a < end[k]; a++) {
            if (of[a].type != 0) continue;
            i64 latest = of[a].time + within, b = following(of, a, end[k], latest, 1, of[a].x);
            if (b == end[k]) continue;
            i64 c = following(of, b, end[k], latest, 2, of[b].x);
            if (c == end[k]) continue;
            if (out) out[m] = (match){of[a].position, of[b].position, of[c].position};
            m++;
        }
    return m;
}

i64 next_count(i64 n, const int32_t *key, i64 n_keys, const int8_t *type, const i64 *time, const double *x, i64 within) {
    i64 *end = malloc((n_keys + 1) * sizeof *end);
    event *of = grouped(n, key, n_keys, type, time, x, end);
    i64 m = found(of, end, n_keys, within, NULL);
    free(of); free(end);
    return m;
}

/* Writes the positions of the events of each match, ordered by the last event, then by those before it. */
i64 next_list(i64 n, const int32_t *key, i64 n_keys, const int8_t *type, const i64 *time, const double *x, i64 within, i64 *out) {
    i64 *end = malloc((n_keys + 1) * sizeof *end), *cursor = calloc(n + 1, sizeof *cursor);
    event *of = grouped(n, key, n_keys, type, time, x, end);
    match *all = malloc((n + 1) * sizeof *all), *sorted = (match *)out;
    i64 m = found(of, end, n_keys, within, all);
    for (i64 i = 0; i < m; i++) cursor[all[i].c + 1]++;
    for (i64 i = 0; i < n; i++) cursor[i + 1] += cursor[i];
    for (i64 i = 0; i < m; i++) sorted[cursor[all[i].c]++] = all[i];
    for (i64 i = 1; i < m; i++) {
        match own = sorted[i];
        i64 j = i;
        for (; j > 0 && sorted[j - 1].c == own.c && (sorted[j - 1].b > own.b || (sorted[j - 1].b == own.b && sorted[j - 1].a > own.a)); j--)
            sorted[j] = sorted[j - 1];
        sorted[j] = own;
    }
    free(of); free(end); free(all); free(cursor);
    return m;
}
