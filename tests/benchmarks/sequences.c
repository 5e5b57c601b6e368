/* The queries of the benchmark by hand in C, from columns: types 0, 1 and 2 are A, B and C, times rise. Without arrays
   for the matches the functions count; with arrays they write the row of each event of each match. */
#include <stdint.h>
#include <stdlib.h>

typedef int64_t i64;

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
