/* The same algorithms as the chain engine, written by hand in C: what its generated kernels are measured against.
   Every function takes what the engine takes (which places fulfil the condition of each component, the columns, the
   first place in whose window each place is) and writes how many matches end at each place. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef int64_t i64;
typedef uint64_t u64;

static i64 places(i64 n, const uint8_t *accept, i64 *out) {
    i64 m = 0;
    for (i64 i = 0; i < n; i++) { out[m] = i; m += accept[i]; }
    return m;
}

static double *gathered(const double *column, const i64 *place, i64 n) {
    double *out = malloc((n + 1) * sizeof *out);
    for (i64 i = 0; i < n; i++) out[i] = column[place[i]];
    return out;
}

#define POOL(name, accept) \
    i64 *name = malloc((n + 1) * sizeof *name); i64 n##name = places(n, accept, name); \
    double *x##name = gathered(x, name, n##name)
#define FREE(name) free(name), free(x##name)

/* SEQ(A, B, C) with a.x < b.x and b.x < c.x: writes how many matches end at each c; since belongs to these */
static i64 rising3(const i64 *a, const double *xa, i64 na, const i64 *b, const double *xb, i64 nb,
                   const i64 *c, const double *xc, i64 nc, const i64 *since, u64 *out) {
    u64 *count = malloc((nb + 1) * sizeof *count), total = 0;
    i64 *end = malloc((nb + 1) * sizeof *end), la = 0, lb = 0, hb = 0, newest = -1;
    for (i64 j = 0, i = 0; j < nb; j++) { while (i < na && a[i] < b[j]) i++; end[j] = i; }
    for (i64 m = 0; m < nc; m++) {
        i64 p = c[m], s = since[m], lost = la;
        while (lost < na && a[lost] < s) lost++;
        if (newest >= s)
            for (i64 i = la, j = lb; i < lost; i++) {
                double y = xa[i];
                while (j < hb && end[j] <= i) j++;
                for (i64 k = j; k < hb; k++) count[k] -= xb[k] > y;
            }
        la = lost;
        while (lb < nb && b[lb] < s) lb++;
        if (newest < s) hb = lb;
        for (; hb < nb && b[hb] < p; hb++) {
            u64 z = 0; double y = xb[hb];
            for (i64 i = la; i < end[hb]; i++) z += xa[i] < y;
            count[hb] = z;
        }
        u64 z = 0; double y = xc[m];
        for (i64 k = lb; k < hb; k++) z += xb[k] < y ? count[k] : 0;
        out[m] = z; total += z; newest = p;
    }
    free(count); free(end);
    return (i64)total;
}

i64 seq3(i64 n, const uint8_t *is_a, const uint8_t *is_b, const uint8_t *is_c, const double *x, const i64 *since, u64 *out) {
    POOL(a, is_a); POOL(b, is_b); POOL(c, is_c);
    i64 *since_of_c = calloc(nc + 1, sizeof *since_of_c);
    u64 *out_of_c = malloc((nc + 1) * sizeof *out_of_c);
    for (i64 m = 0; m < nc; m++) since_of_c[m] = since[c[m]];
    i64 total = rising3(a, xa, na, b, xb, nb, c, xc, nc, since_of_c, out_of_c);
    for (i64 m = 0; m < nc; m++) out[c[m]] = out_of_c[m];
    FREE(a); FREE(b); FREE(c); free(since_of_c); free(out_of_c);
    return total;
}

/* The same from columns: types 0, 1 and 2 are A, B and C, times rise; returns the number of matches alone. */
i64 seq3_of_columns(i64 n, const int8_t *type, const i64 *time, const double *x, i64 within) {
    i64 *place[3], size[3] = {0, 0, 0};
    double *value[3];
    for (int s = 0; s < 3; s++) place[s] = malloc((n + 1) * sizeof(i64));
    for (i64 i = 0; i < n; i++)
        for (int s = 0; s < 3; s++) { place[s][size[s]] = i; size[s] += type[i] == s; }
    for (int s = 0; s < 3; s++) value[s] = gathered(x, place[s], size[s]);
    i64 *since = malloc((size[2] + 1) * sizeof *since), start = 0;
    u64 *out = malloc((size[2] + 1) * sizeof *out);
    for (i64 m = 0; m < size[2]; m++) {
        while (time[place[2][m]] - time[start] > within) start++;
        since[m] = start;
    }
    i64 total = rising3(place[0], value[0], size[0], place[1], value[1], size[1], place[2], value[2], size[2], since, out);
    for (int s = 0; s < 3; s++) free(place[s]), free(value[s]);
    free(since); free(out);
    return total;
}

/* SEQ(A, B+, C) with b[i-1].x < b[i].x; numbers modulo 2^64 */
i64 kleene(i64 n, const uint8_t *is_a, const uint8_t *is_b, const uint8_t *is_c, const double *x, const i64 *since, u64 *out) {
    POOL(a, is_a); POOL(b, is_b); POOL(c, is_c);
    u64 *count = malloc((nb + 1) * sizeof *count), *change = malloc((nb + 1) * sizeof *change), *value = malloc((nb + 1) * sizeof *value), total = 0;
    double *changed = malloc((nb + 1) * sizeof *changed);
    i64 *end = malloc((nb + 1) * sizeof *end), la = 0, lb = 0, hb = 0, newest = -1;
    for (i64 j = 0, i = 0; j < nb; j++) { while (i < na && a[i] < b[j]) i++; end[j] = i; }
    for (i64 m = 0; m < nc; m++) {
        i64 p = c[m], s = since[p], lost = la;
        while (lost < na && a[lost] < s) lost++;
        if (newest >= s && lost > la) {
            i64 k = 0;
            for (i64 j = lb; j < hb; j++) {
                i64 upto = end[j] < lost ? end[j] : lost;
                u64 z = upto > la ? upto - la : 0; double y = xb[j];
                for (i64 i = 0; i < k; i++) z += changed[i] < y ? value[i] : 0;
                if (z) { count[j] -= z; value[k] = z; changed[k++] = y; }
            }
        }
        la = lost;
        while (lb < nb && b[lb] < s) lb++;
        if (newest < s) hb = lb;
        for (; hb < nb && b[hb] < p; hb++) {
            u64 z = end[hb] > la ? end[hb] - la : 0; double y = xb[hb];
            for (i64 k = lb; k < hb; k++) z += xb[k] < y ? count[k] : 0;
            count[hb] = z;
        }
        u64 z = 0;
        for (i64 k = lb; k < hb; k++) z += count[k];
        out[p] = z; total += z; newest = p;
    }
    FREE(a); FREE(b); FREE(c); free(count); free(change); free(value); free(changed); free(end);
    return (i64)total;
}

/* SEQ(A, B+, C) with b[i].x > a.x, anchor by anchor; numbers modulo 2^64 */
i64 anchored(i64 n, const uint8_t *is_a, const uint8_t *is_b, const uint8_t *is_c, const double *x, const i64 *since, u64 *out) {
    POOL(a, is_a);
    i64 *entry = malloc((n + 1) * sizeof *entry), *upto = malloc((n + 2) * sizeof *upto), m = 0;
    for (i64 i = 0; i < n; i++) { upto[i] = m; entry[m] = i; m += is_b[i] | is_c[i]; }
    upto[n] = m;
    double *xe = gathered(x, entry, m);
    u64 *count = calloc(m + 1, sizeof *count), total = 0;
    uint8_t *is_c_of = malloc(m + 1);
    for (i64 e = 0; e < m; e++) is_c_of[e] = is_c[entry[e]];
    for (i64 i = 0, end = 0; i < na; i++) {
        while (end < n && since[end] <= a[i]) end++;
        double y = xa[i];
        u64 z = 0;
        for (i64 e = upto[a[i]] + is_b[a[i]] + is_c[a[i]]; e < upto[end]; e++) {
            count[e] += is_c_of[e] ? z : 0;
            z += !is_c_of[e] & (xe[e] > y) ? z + 1 : 0;
        }
    }
    for (i64 e = 0; e < m; e++) { out[entry[e]] = count[e]; total += count[e]; }
    FREE(a); free(entry); free(upto); free(xe); free(count); free(is_c_of);
    return (i64)total;
}

/* SEQ(A, B, C) without conditions, no event of two types */
i64 unary(i64 n, const uint8_t *is_a, const uint8_t *is_b, const uint8_t *is_c, const double *x, const i64 *since, u64 *out) {
    u64 ab = 0, a_ = 0, b_ = 0, total = 0; /* paths through A B, A, B of the window */
    i64 oldest = 0;
    uint8_t *state = malloc(n);
    for (i64 i = 0; i < n; i++) state[i] = is_a[i] | is_b[i] << 1 | is_c[i] << 2;
    for (i64 i = 0; i < n; i++) {
        i64 s = since[i];
        for (; oldest < s; oldest++) {
            u64 u = state[oldest] & 1, v = state[oldest] >> 1 & 1;
            ab -= b_ & -u; a_ -= u; b_ -= v;
        }
        u64 u = state[i] & 1, v = state[i] >> 1 & 1;
        if (state[i] & 4) { out[i] = ab; total += ab; }
        ab += a_ & -v; a_ += u; b_ += v;
    }
    free(state);
    return (i64)total;
}

/* SEQ(A, !B, C) with a.x < b.x: no such B between */
i64 absent(i64 n, const uint8_t *is_a, const uint8_t *is_b, const uint8_t *is_c, const double *x, const i64 *since, u64 *out) {
    POOL(a, is_a); POOL(b, is_b); POOL(c, is_c);
    i64 *limit = malloc((na + 1) * sizeof *limit);
    u64 total = 0;
    for (i64 i = 0, j = 0; i < na; i++) {
        double y = xa[i];
        while (j < nb && b[j] < a[i]) j++;
        i64 k = j;
        while (k < nb && !(y < xb[k])) k++;
        limit[i] = k < nb ? b[k] : INT64_MAX;
    }
    for (i64 m = 0, la = 0, ha = 0; m < nc; m++) {
        i64 p = c[m], s = since[p];
        while (la < na && a[la] < s) la++;
        while (ha < na && a[ha] < p) ha++;
        u64 z = 0;
        for (i64 i = la; i < ha; i++) z += limit[i] >= p;
        out[p] = z; total += z;
    }
    FREE(a); FREE(b); FREE(c); free(limit);
    return (i64)total;
}

/* What a user waits for, from columns: types 0, 1 and 2 are A, B and C, times rise. Without arrays for the matches
   the functions count; with arrays they write the row of each event of each match. */

typedef struct { i64 *row, size, room, first; } Queue;

static void push(Queue *q, i64 row) {
    if (q->size == q->room) q->row = realloc(q->row, (q->room = q->room ? 2 * q->room : 16) * sizeof(i64));
    q->row[q->size++] = row;
}

static Queue *queues(i64 n) { return calloc(n, sizeof(Queue)); }
static void drop(Queue *q, i64 n) { for (i64 k = 0; k < n; k++) free(q[k].row); free(q); }

/* SEQ(A, B, C) with a.x < b.x < c.x of one key within a time */
i64 keyed_rising(i64 n, const int32_t *key, i64 n_keys, const int8_t *type, const i64 *time, const double *x,
                 i64 within, i64 *out_a, i64 *out_b, i64 *out_c) {
    Queue *as = queues(n_keys), *bs = queues(n_keys);
    i64 found = 0;
    for (i64 i = 0; i < n; i++) {
        if (type[i] > 2) continue;
        Queue *a = as + key[i], *b = bs + key[i];
        if (type[i] == 0) push(a, i);
        if (type[i] == 1) push(b, i);
        if (type[i] != 2) continue;
        i64 oldest = time[i] - within;
        while (a->first < a->size && time[a->row[a->first]] < oldest) a->first++;
        while (b->first < b->size && time[b->row[b->first]] < oldest) b->first++;
        for (i64 j = b->first; j < b->size; j++) {
            i64 row = b->row[j]; double y = x[row];
            if (!(y < x[i]) || time[row] >= time[i]) continue;
            for (i64 k = a->first; k < a->size && time[a->row[k]] < time[row]; k++)
                if (x[a->row[k]] < y) {
                    if (out_a) out_a[found] = a->row[k], out_b[found] = row, out_c[found] = i;
                    found++;
                }
        }
    }
    drop(as, n_keys); drop(bs, n_keys);
    return found;
}

/* SEQ(A, !B, C): no B with a greater x than A between them */
i64 absent_of_columns(i64 n, const int8_t *type, const i64 *time, const double *x, i64 within, i64 *out_a, i64 *out_c) {
    Queue *a = queues(1);
    i64 found = 0;
    for (i64 i = 0; i < n; i++) {
        if (type[i] == 0) push(a, i);
        if (type[i] == 1) {
            i64 kept = a->first;
            for (i64 k = a->first; k < a->size; k++) { a->row[kept] = a->row[k]; kept += !(x[a->row[k]] < x[i]); }
            a->size = kept;
        }
        if (type[i] != 2) continue;
        while (a->first < a->size && time[a->row[a->first]] < time[i] - within) a->first++;
        for (i64 k = a->first; k < a->size; k++) {
            if (out_a) out_a[found] = a->row[k], out_c[found] = i;
            found++;
        }
    }
    drop(a, 1);
    return found;
}

/* Skip till next: each A takes the next greater B of its key, and this the next greater C. In each key, those that
   wait are in the order of their A. A match ends within the time of its A. Arrays have room for n matches. */
i64 keyed_next(i64 n, const int32_t *key, i64 n_keys, const int8_t *type, const i64 *time, const double *x, i64 within,
               i64 *out_a, i64 *out_b, i64 *out_c) {
    Queue *as = queues(n_keys), *firsts = queues(n_keys), *bs = queues(n_keys); /* bs: the B of each A in firsts */
    i64 found = 0;
    for (i64 i = 0; i < n; i++) {
        if (type[i] > 2) continue;
        Queue *a = as + key[i], *f = firsts + key[i], *b = bs + key[i];
        if (type[i] == 0) {
            push(a, i);
            continue;
        }
        i64 oldest = time[i] - within, kept = 0;
        if (type[i] == 1) {
            for (i64 k = 0; k < a->size; k++) {
                i64 row = a->row[k];
                if (time[row] < oldest) continue;
                if (x[row] < x[i]) push(f, row), push(b, i);
                else a->row[kept++] = row;
            }
            a->size = kept;
            continue;
        }
        for (i64 k = 0; k < f->size; k++) {
            i64 row = f->row[k], middle = b->row[k];
            if (time[row] < oldest) continue;
            if (x[middle] < x[i]) {
                if (out_a) out_a[found] = row, out_b[found] = middle, out_c[found] = i;
                found++;
            } else f->row[kept] = row, b->row[kept++] = middle;
        }
        f->size = b->size = kept;
    }
    drop(as, n_keys); drop(firsts, n_keys); drop(bs, n_keys);
    return found;
}
