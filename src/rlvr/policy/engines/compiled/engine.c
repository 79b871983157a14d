/* The policy's passes in plain C: forward, backward, sampling, exam and Adam, the same bytes
 * whatever the compiler and the processor.
 *
 * Every sum has one written order, every fused multiply-add is explicit (compile with
 * -ffp-contract=off), and exp and log are here. In a causal model a state depends on its prefix
 * alone: a batch is a tree of its distinct prefixes, and each is computed once.
 *
 * The sizes of the network are constants of the build (build.py): WIDTH, HEADS, FEED_FORWARD,
 * LAYERS; so are the task's VOCABULARY, POSITIONS and CLASSES, and REAL, float or double. Parameters
 * are one flat vector, in the order of `Parameters`, and so are their gradient and Adam's moments.
 * The shape of an array stands behind its name: x (rows, columns), row after row.
 *
 * After Vaswani et al. 2017 (arXiv:1706.03762), layers pre-norm as in Xiong et al. 2020
 * (arXiv:2002.04745). Adam is Kingma & Ba 2015 (arXiv:1412.6980).
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#ifdef __x86_64__
#include <cpuid.h>
#endif
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

typedef REAL real;

enum { LANES = 8 };
enum { HEAD = WIDTH / HEADS, LOGITS = (CLASSES + LANES - 1) / LANES * LANES };
enum { SCORES = (POSITIONS * HEADS + LANES - 1) / LANES * LANES };
_Static_assert(WIDTH % HEADS == 0 && HEAD % LANES == 0, "a head is some whole vectors");
_Static_assert(FEED_FORWARD % LANES == 0, "so is the hidden layer");

#define INLINE static inline __attribute__((always_inline))

/* --- Numbers, eight at a time ------------------------------------------------------------------ */

typedef real vec __attribute__((vector_size(LANES * sizeof(real)), aligned(sizeof(real)), may_alias));
typedef real half __attribute__((vector_size(LANES / 2 * sizeof(real))));
#define V(pointer) (*(vec *)(pointer)) /* the eight numbers from there on */
#define C(pointer) (*(const vec *)(pointer))

INLINE vec splat(real x) { return (vec){x, x, x, x, x, x, x, x}; }
INLINE real larger(real x, real y) { return x > y ? x : y; }
INLINE real root(real x) { return sizeof(real) == 4 ? __builtin_sqrtf((float)x) : __builtin_sqrt(x); }

/* a b + c, rounded once */
INLINE vec madd(vec a, vec b, vec c)
{
#ifdef __clang__
    return __builtin_elementwise_fma(a, b, c);
#else
    for (int i = 0; i < LANES; i++)
        c[i] = sizeof(real) == 4 ? __builtin_fmaf(a[i], b[i], c[i]) : __builtin_fma(a[i], b[i], c[i]);
    return c;
#endif
}

/* The sum of the eight, by halves */
INLINE real sum(vec x)
{
    half s = __builtin_shufflevector(x, x, 0, 1, 2, 3) + __builtin_shufflevector(x, x, 4, 5, 6, 7);
    return (s[0] + s[2]) + (s[1] + s[3]);
}

/* The sums of eight vectors, each by neighbours */
INLINE vec sums(const vec x[LANES])
{
    vec pair[4], four[2];
    for (int i = 0; i < 4; i++)
        pair[i] = __builtin_shufflevector(x[2 * i], x[2 * i + 1], 0, 2, 8, 10, 4, 6, 12, 14) +
                  __builtin_shufflevector(x[2 * i], x[2 * i + 1], 1, 3, 9, 11, 5, 7, 13, 15);
    for (int i = 0; i < 2; i++)
        four[i] = __builtin_shufflevector(pair[2 * i], pair[2 * i + 1], 0, 2, 8, 10, 4, 6, 12, 14) +
                  __builtin_shufflevector(pair[2 * i], pair[2 * i + 1], 1, 3, 9, 11, 5, 7, 13, 15);
    return __builtin_shufflevector(four[0], four[1], 0, 1, 2, 3, 8, 9, 10, 11) +
           __builtin_shufflevector(four[0], four[1], 4, 5, 6, 7, 12, 13, 14, 15);
}

#define SINGLE (sizeof(real) == 4)
typedef __typeof__(__builtin_choose_expr(SINGLE, (int32_t)0, (int64_t)0)) word;
typedef __typeof__(__builtin_choose_expr(SINGLE, (uint32_t)0, (uint64_t)0)) bits; /* may wrap */
typedef word words __attribute__((vector_size(LANES * sizeof(real))));
typedef bits many_bits __attribute__((vector_size(LANES * sizeof(real))));
enum { MANTISSA = SINGLE ? 23 : 52, EXPONENT = SINGLE ? 127 : 1023, LEAST = SINGLE ? -87 : -700 };

/* ln 2 in two parts; the product of the first and an exponent is exact */
#define LN2_HIGH (real)0.693359375
#define LN2_LOW (real)-2.12194440054690583e-4

/* e^x of x <= 0, or e^LEAST where x is less: 2^k e^r with |r| <= ln 2 / 2, and r's power series */
INLINE vec exponential(vec x)
{
    const real magic = (real)1.5 * (real)(1ull << MANTISSA); /* adding it rounds to an integer */
    words above = (words)(x > LEAST);
    x = (vec)(((words)x & above) | ((words)splat(LEAST) & ~above));
    vec k = x * (real)1.44269504088896340736 + magic;
    many_bits power = ((many_bits)k << MANTISSA) + ((bits)EXPONENT << MANTISSA);
    k -= magic;
    vec r = madd(k, splat(-LN2_LOW), x - k * LN2_HIGH), series = splat(0);
    for (int n = SINGLE ? 7 : 13; n > 0; n--) /* Horner's rule for the sum of r^n / n! */
        series = (series + 1) * r * ((real)1 / (real)n);
    return madd((vec)power, series, (vec)power);
}

/* ln x of normal x > 0: x = 2^k m with m in [1/sqrt 2, sqrt 2); ln m = 2 artanh((m - 1) / (m + 1)) */
INLINE real logarithm(real scalar)
{
    vec x = splat(scalar);
    words k = ((words)x - (words)splat((real)0.70710678118654752440)) >> MANTISSA;
    vec m = (vec)((words)x - (words)((many_bits)k << MANTISSA));
    vec s = (m - 1) / (m + 1), square = s * s, series = splat(0);
    for (int n = SINGLE ? 9 : 21; n > 1; n -= 2)
        series = (series + (real)1 / (real)n) * square;
    vec exponent = __builtin_convertvector(k, vec);
    vec low = madd(exponent, splat(LN2_LOW), madd(2 * s, series, 2 * s));
    return madd(exponent, splat(LN2_HIGH), low)[0];
}

/* --- Parameters -------------------------------------------------------------------------------- */

typedef struct {
    real in_weight[3 * WIDTH * WIDTH], in_bias[3 * WIDTH]; /* queries, keys, values */
    real out_weight[WIDTH * WIDTH], out_bias[WIDTH];
    real weight1[FEED_FORWARD * WIDTH], bias1[FEED_FORWARD];
    real weight2[WIDTH * FEED_FORWARD], bias2[WIDTH];
    real norm1_weight[WIDTH], norm1_bias[WIDTH], norm2_weight[WIDTH], norm2_bias[WIDTH];
} Layer;

typedef struct {
    real tokens[VOCABULARY * WIDTH], positions[POSITIONS * WIDTH];
    Layer layers[LAYERS];
    real head_weight[CLASSES * WIDTH], head_bias[CLASSES];
} Parameters;

enum { PARAMETERS = sizeof(Parameters) / sizeof(real) };

/* Weights turned over, (in, out), as the forward pass multiplies by them */
typedef struct {
    struct {
        real in_weight[WIDTH * 3 * WIDTH], out_weight[WIDTH * WIDTH];
        real weight1[WIDTH * FEED_FORWARD], weight2[FEED_FORWARD * WIDTH];
    } layers[LAYERS];
    real head_weight[WIDTH * LOGITS], head_bias[LOGITS]; /* padded by 0 */
} Turned;

/* out (columns, out_row) = the transpose of x (rows, columns), both multiples of eight */
static void turn(const real *x, int rows, int columns, real *out, int out_row)
{
    for (int i = 0; i < rows; i += LANES)
        for (int j = 0; j < columns; j += LANES) {
            vec a[LANES], b[LANES];
            for (int k = 0; k < LANES; k++) a[k] = C(x + (i + k) * columns + j);
            for (int k = 0; k < 4; k++) { /* three rounds of merging two rows into two */
                b[2 * k] = __builtin_shufflevector(a[k], a[k + 4], 0, 8, 1, 9, 2, 10, 3, 11);
                b[2 * k + 1] = __builtin_shufflevector(a[k], a[k + 4], 4, 12, 5, 13, 6, 14, 7, 15);
            }
            for (int k = 0; k < 4; k++) {
                a[2 * k] = __builtin_shufflevector(b[k], b[k + 4], 0, 8, 1, 9, 2, 10, 3, 11);
                a[2 * k + 1] = __builtin_shufflevector(b[k], b[k + 4], 4, 12, 5, 13, 6, 14, 7, 15);
            }
            for (int k = 0; k < 4; k++) {
                b[2 * k] = __builtin_shufflevector(a[k], a[k + 4], 0, 8, 1, 9, 2, 10, 3, 11);
                b[2 * k + 1] = __builtin_shufflevector(a[k], a[k + 4], 4, 12, 5, 13, 6, 14, 7, 15);
            }
            for (int k = 0; k < LANES; k++) V(out + (j + k) * out_row + i) = b[k];
        }
}

static void turn_weights(const Parameters *p, Turned *t)
{
    for (int l = 0; l < LAYERS; l++) {
        const Layer *w = &p->layers[l];
        turn(w->in_weight, 3 * WIDTH, WIDTH, t->layers[l].in_weight, 3 * WIDTH);
        turn(w->out_weight, WIDTH, WIDTH, t->layers[l].out_weight, WIDTH);
        turn(w->weight1, FEED_FORWARD, WIDTH, t->layers[l].weight1, FEED_FORWARD);
        turn(w->weight2, WIDTH, FEED_FORWARD, t->layers[l].weight2, WIDTH);
    }
    for (int c = 0; c < LOGITS; c++) {
        for (int d = 0; d < WIDTH; d++)
            t->head_weight[d * LOGITS + c] = c < CLASSES ? p->head_weight[c * WIDTH + d] : 0;
        t->head_bias[c] = c < CLASSES ? p->head_bias[c] : 0;
    }
}

/* --- What a pass keeps ------------------------------------------------------------------------- */

/* What the backward pass of a layer needs of its forward pass. Its rows are those of its input:
 * distinct embeddings in the first layer, then nodes. Its results are all nodes or, in the last
 * layer, the asked ones: only there somebody reads the layer's output. */
typedef struct {
    real *input, *mean1, *scale1, *normed1, *kv; /* by row */
    real *q;                                     /* by row; by result in the last layer */
    real *normed_asked;                          /* by result, in the last layer */
    real *chance, *mixed, *middle, *mean2, *scale2, *normed2, *inner; /* by result */
} State;

/* The distinct prefixes of some sequences. It only grows, parents before children. */
typedef struct {
    int nodes, pairs, results; /* how many it has */
    int asked_of_each;         /* results per sequence */
    int *child;                /* of a node, by its number + 1; of no node, at 0; (., VOCABULARY) */
    int *path;                 /* its ancestors, itself last; (., POSITIONS) */
    int *depth;                /* its position */
    int *pair;                 /* its token and position, all that its embedding depends on */
    int *result, *asked;       /* its number among the asked nodes, or -1; and back */
    int *result_of;            /* of each sequence and asked position */
    int *itself;               /* 0, 1, 2, ... */
    int pair_of[VOCABULARY * POSITIONS], token[VOCABULARY * POSITIONS], position[VOCABULARY * POSITIONS];
} Tree;

typedef struct {
    Tree *tree;
    int done_nodes, done_pairs, done_results; /* of the tree, what the forward pass has computed */
    Turned *turned;
    State states[LAYERS];
    real *output, *log_prob, *chance; /* by result: of the last layer, and of the next token */
    real *dinput, *doutput, *dinner, *dnormed, *dq, *dkv, *dlogits; /* of the backward pass */
    real temperature;
} Work;

/* Parts of a block of memory one after another, each on a cache line. Without a block (0) only the
 * sizes count. */
typedef struct {
    char *base;
    size_t used;
} Block;

static void *part(Block *block, size_t count, size_t size)
{
    void *at = block->base ? block->base + block->used : 0;
    block->used += (count * size + 63) / 64 * 64;
#ifdef __SANITIZE_ADDRESS__ /* what lies between two parts is nobody's */
    if (block->base) __asan_poison_memory_region(block->base + block->used, 64);
    block->used += 64;
#endif
    return at;
}

#define INTS(each) part(&b, nodes * (each), sizeof(int))
#define REALS(each) part(&b, nodes * (each), sizeof(real))

static size_t lay_out_tree(Tree *t, char *base, size_t nodes)
{
    Block b = {base, 0};
    part(&b, 1, sizeof(Tree)); /* the block begins with it */
    t->child = part(&b, (nodes + 1) * VOCABULARY, sizeof(int));
    t->path = INTS(POSITIONS), t->depth = INTS(1), t->pair = INTS(1), t->result = INTS(1);
    t->asked = INTS(1), t->result_of = INTS(1), t->itself = INTS(1);
    return b.used;
}

static size_t lay_out_work(Work *w, char *base, size_t nodes)
{
    Block b = {base, 0};
    part(&b, 1, sizeof(Work));
    w->turned = part(&b, 1, sizeof(Turned));
    for (int l = 0; l < LAYERS; l++) {
        State *s = &w->states[l];
        s->input = REALS(WIDTH), s->mean1 = REALS(1), s->scale1 = REALS(1);
        s->normed1 = REALS(WIDTH), s->kv = REALS(2 * WIDTH), s->q = REALS(WIDTH);
        s->normed_asked = l == LAYERS - 1 ? REALS(WIDTH) : 0;
        s->chance = REALS(SCORES), s->mixed = REALS(WIDTH), s->middle = REALS(WIDTH);
        s->mean2 = REALS(1), s->scale2 = REALS(1);
        s->normed2 = REALS(WIDTH), s->inner = REALS(FEED_FORWARD);
    }
    w->output = REALS(WIDTH), w->log_prob = REALS(LOGITS), w->chance = REALS(LOGITS);
    w->dinput = REALS(WIDTH), w->doutput = REALS(WIDTH), w->dinner = REALS(WIDTH > FEED_FORWARD ? WIDTH : FEED_FORWARD);
    w->dnormed = REALS(WIDTH), w->dq = REALS(WIDTH), w->dkv = REALS(2 * WIDTH);
    w->dlogits = REALS(LOGITS);
    return b.used;
}

/* --- The tree ---------------------------------------------------------------------------------- */

static void clear(Tree *t)
{
    t->nodes = t->pairs = t->results = 0;
    memset(t->child, -1, VOCABULARY * sizeof(int));
    memset(t->pair_of, -1, sizeof t->pair_of);
}

/* The node of `token` after `parent` (-1: at the start) */
static int follow(Tree *t, int parent, int token)
{
    int *child = &t->child[(parent + 1) * VOCABULARY + token];
    if (*child >= 0) return *child;
    int node = *child = t->nodes++, depth = parent < 0 ? 0 : t->depth[parent] + 1;
    memset(t->child + (node + 1) * VOCABULARY, -1, VOCABULARY * sizeof(int));
    if (parent >= 0) memcpy(t->path + node * POSITIONS, t->path + parent * POSITIONS, POSITIONS * sizeof(int));
    t->path[node * POSITIONS + depth] = node;
    t->depth[node] = depth;
    t->result[node] = -1;
    int *pair = &t->pair_of[token * POSITIONS + depth];
    if (*pair < 0) {
        *pair = t->pairs++;
        t->token[*pair] = token;
        t->position[*pair] = depth;
    }
    t->pair[node] = *pair;
    return node;
}

/* The result of a node, which is asked for from now on */
static int ask(Tree *t, int node)
{
    if (t->result[node] < 0) {
        t->asked[t->results] = node;
        t->result[node] = t->results++;
    }
    return t->result[node];
}

/* The tree of sequences (n, length) that are followed by answers (n, more), of which the last token
 * is not read. Asked for is what predicts each token from position `first` on. */
static void plant(Tree *t, int n, int length, const int64_t *sequences, int more, const int64_t *answers,
                  int first)
{
    clear(t);
    int read = length + (more ? more - 1 : 0);
    t->asked_of_each = read - first;
    for (int i = 0; i < n; i++)
        for (int at = 0, node = -1; at < read; at++) {
            node = follow(t, node, (int)(at < length ? sequences[i * length + at] : answers[i * more + at - length]));
            if (at >= first) t->result_of[i * t->asked_of_each + at - first] = ask(t, node);
        }
}

/* --- Products ---------------------------------------------------------------------------------- */

/* What becomes of a product: start (rows, columns) is added before it, bias (columns,) behind it, then
 * comes the ReLU. Without one of them: 0. */
typedef struct {
    const real *start, *bias;
    int start_row, relu;
} Around;

/* `rows` rows by `columns` vectors of the product below */
INLINE void tile(int rows, int columns, int inner, const real *a, int a_row, int a_column, const real *b,
                 int b_row, Around around, real *out, int out_row)
{
    vec s[6][2];
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
        for (int j = 0; j < columns; j++)
            s[i][j] = around.start ? C(around.start + i * around.start_row + j * LANES) : splat(0);
    for (int k = 0; k < inner; k++) {
        vec bk[2];
#pragma GCC unroll 2
        for (int j = 0; j < columns; j++) bk[j] = C(b + k * b_row + j * LANES);
#pragma GCC unroll 6
        for (int i = 0; i < rows; i++) {
            vec x = splat(a[i * a_row + k * a_column]);
#pragma GCC unroll 2
            for (int j = 0; j < columns; j++) s[i][j] = madd(x, bk[j], s[i][j]);
        }
    }
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
        for (int j = 0; j < columns; j++) {
            if (around.bias) s[i][j] += C(around.bias + j * LANES);
            if (around.relu) s[i][j] = (vec)((words)s[i][j] & (words)(s[i][j] > 0));
            V(out + i * out_row + j * LANES) = s[i][j];
        }
}

/* A strip of `columns` vectors: all rows of a, six at a time */
INLINE void strip(int columns, int m, int inner, const real *a, int a_row, int a_column, const real *b,
                  int b_row, Around around, real *out, int out_row)
{
    for (int i = 0; i < m; i += 6, a += 6 * a_row, out += 6 * out_row) {
        switch (m - i) {
        case 1: tile(1, columns, inner, a, a_row, a_column, b, b_row, around, out, out_row); break;
        case 2: tile(2, columns, inner, a, a_row, a_column, b, b_row, around, out, out_row); break;
        case 3: tile(3, columns, inner, a, a_row, a_column, b, b_row, around, out, out_row); break;
        case 4: tile(4, columns, inner, a, a_row, a_column, b, b_row, around, out, out_row); break;
        case 5: tile(5, columns, inner, a, a_row, a_column, b, b_row, around, out, out_row); break;
        default: tile(6, columns, inner, a, a_row, a_column, b, b_row, around, out, out_row);
        }
        if (around.start) around.start += 6 * around.start_row;
    }
}

/* out (m, n) = a (m, inner) b (inner, n), n a multiple of eight; each sum in order of inner */
INLINE void multiply(int m, int inner, int n, const real *a, int a_row, int a_column, const real *b,
                     int b_row, Around around, real *out)
{
    enum { BLOCK = 256 }; /* rows of b that stay in the cache */
    for (int k = 0; k == 0 || k < inner; k += BLOCK) {
        int some = inner - k < BLOCK ? inner - k : BLOCK, end = k + some == inner;
        const real *x = a + (ptrdiff_t)k * a_column, *y = b + (ptrdiff_t)k * b_row;
        for (int j = 0; j < n; j += 2 * LANES) {
            Around here = {k ? out + j : around.start ? around.start + j : 0,
                           end && around.bias ? around.bias + j : 0, k ? n : around.start_row,
                           end && around.relu};
            if (j + LANES < n)
                strip(2, m, some, x, a_row, a_column, y + j, b_row, here, out + j, n);
            else
                strip(1, m, some, x, a_row, a_column, y + j, b_row, here, out + j, n);
        }
    }
}

/* out (m, n) = a (m, inner) b (inner, n) + bias (n,), rows of b being b_row apart */
static void affine(int m, int inner, int n, const real *a, const real *b, int b_row, const real *bias, real *out)
{
    multiply(m, inner, n, a, inner, 1, b, b_row, (Around){.bias = bias}, out);
}

/* out (m, n) = relu(the same) */
static void affine_relu(int m, int inner, int n, const real *a, const real *b, const real *bias, real *out)
{
    multiply(m, inner, n, a, inner, 1, b, n, (Around){.bias = bias, .relu = 1}, out);
}

/* out (m, n) = start (m, n) + a (m, inner) b (inner, n) + bias (n,) */
static void add_affine(int m, int inner, int n, const real *start, const real *a, const real *b,
                       const real *bias, real *out)
{
    multiply(m, inner, n, a, inner, 1, b, n, (Around){.start = start, .start_row = n, .bias = bias}, out);
}

/* out (m, n) = a (m, inner) b (inner, n) */
static void product(int m, int inner, int n, const real *a, const real *b, real *out)
{
    multiply(m, inner, n, a, inner, 1, b, n, (Around){0}, out);
}

/* out (m, n) += a (m, inner) b (inner, n) */
static void add_product(int m, int inner, int n, const real *a, const real *b, real *out)
{
    multiply(m, inner, n, a, inner, 1, b, n, (Around){.start = out, .start_row = n}, out);
}

/* out (m, n) = the transpose of a (rows, a_row), its first m columns, times b (rows, n) */
static void turned_product(int m, int rows, int n, const real *a, int a_row, const real *b, real *out)
{
    multiply(m, rows, n, a, 1, a_row, b, n, (Around){0}, out);
}

/* out (columns,) = the sum of the rows of x (rows, columns) */
INLINE void sum_rows(int rows, int columns, const real *x, real *out)
{
    for (int d = 0; d < columns; d += LANES) {
        vec s = splat(0);
        for (int i = 0; i < rows; i++) s += C(x + i * columns + d);
        V(out + d) = s;
    }
}

/* --- Layer norm -------------------------------------------------------------------------------- */

/* y (rows, WIDTH) = (x - mean) scale weight + bias, with scale = 1 / sqrt(variance + 1e-5) */
static void layer_norm(int rows, const real *x, const real *weight, const real *bias, real *y, real *means,
                       real *scales)
{
    for (int i = 0; i < rows; i++, x += WIDTH, y += WIDTH) {
        vec s = splat(0), squares = splat(0);
        for (int d = 0; d < WIDTH; d += LANES) s += C(x + d);
        real mean = sum(s) * ((real)1 / WIDTH);
        for (int d = 0; d < WIDTH; d += LANES) {
            vec c = C(x + d) - mean;
            squares = madd(c, c, squares);
        }
        real scale = 1 / root(sum(squares) * ((real)1 / WIDTH) + (real)1e-5);
        for (int d = 0; d < WIDTH; d += LANES)
            V(y + d) = madd((C(x + d) - mean) * scale, C(weight + d), C(bias + d));
        means[i] = mean, scales[i] = scale;
    }
}

/* With xhat = (x - mean) scale and g = dy weight, dx += scale (g - mean of g - xhat mean of g xhat).
 * Sets dweight and dbias. */
static void layer_norm_back(int rows, const real *dy, const real *x, const real *weight, const real *means,
                            const real *scales, real *dx, real *dweight, real *dbias)
{
    vec by_weight[WIDTH / LANES], by_bias[WIDTH / LANES];
    for (int d = 0; d < WIDTH / LANES; d++) by_weight[d] = by_bias[d] = splat(0);
    for (int i = 0; i < rows; i++, dy += WIDTH, x += WIDTH, dx += WIDTH) {
        real mean = means[i], scale = scales[i];
        vec one = splat(0), two = splat(0);
        for (int d = 0; d < WIDTH / LANES; d++) {
            vec g = C(dy + d * LANES), xhat = (C(x + d * LANES) - mean) * scale;
            by_bias[d] += g;
            by_weight[d] = madd(g, xhat, by_weight[d]);
            g *= C(weight + d * LANES);
            one += g;
            two = madd(g, xhat, two);
        }
        one = splat(-sum(one) * ((real)1 / WIDTH));
        two = splat(-sum(two) * ((real)1 / WIDTH));
        for (int d = 0; d < WIDTH; d += LANES) {
            vec xhat = (C(x + d) - mean) * scale;
            vec g = madd(C(dy + d), C(weight + d), madd(xhat, two, one));
            V(dx + d) = madd(g, splat(scale), C(dx + d));
        }
    }
    for (int d = 0; d < WIDTH / LANES; d++) {
        V(dweight + d * LANES) = by_weight[d];
        V(dbias + d * LANES) = by_bias[d];
    }
}

/* --- Attention --------------------------------------------------------------------------------- */

/* Which rows and results a layer is about, and how they belong together */
typedef struct {
    int last;
    int row0, rows, result0, results; /* new ones: from row0 up to rows; so for results */
    const int *row_of_node, *node_of, *query_of; /* row of a node; node, and row of q, of a result */
} Range;

static Range range_of(const Work *w, int l)
{
    int last = l == LAYERS - 1;
    return (Range){
        .last = last,
        .row0 = l ? w->done_nodes : w->done_pairs,
        .rows = l ? w->tree->nodes : w->tree->pairs,
        .result0 = last ? w->done_results : w->done_nodes,
        .results = last ? w->tree->results : w->tree->nodes,
        .row_of_node = l ? w->tree->itself : w->tree->pair,
        .node_of = last ? w->tree->asked : w->tree->itself,
        .query_of = last || l ? w->tree->itself : w->tree->pair,
    };
}

/* The rows of a result's keys: of its prefix, itself last. Returns how many they are. */
INLINE int keys_of(const Work *w, const Range *r, int result, int rows[POSITIONS])
{
    int node = r->node_of[result], keys = w->tree->depth[node] + 1;
    for (int j = 0; j < keys; j++) rows[j] = r->row_of_node[w->tree->path[node * POSITIONS + j]];
    return keys;
}

/* Of each key j and head h, at j HEADS + h: the product of x and y_j in the head's part. Behind the
 * last key stands what nobody reads. */
INLINE void head_products(int keys, const real *x, const real *const y[POSITIONS], real *out)
{
    for (int e = 0; e < keys * HEADS; e += LANES) {
        vec dots[LANES];
#pragma GCC unroll 8
        for (int k = 0; k < LANES; k++) {
            int j = (e + k) / HEADS, at = (e + k) % HEADS * HEAD;
            const real *of = y[j < keys ? j : 0] + at;
            dots[k] = C(x + at) * C(of);
            for (int d = LANES; d < HEAD; d += LANES) dots[k] = madd(C(x + at + d), C(of + d), dots[k]);
        }
        V(out + e) = sums(dots);
    }
}

/* Of each head: chance = softmax(q k / sqrt(HEAD)) over the keys, mixed = sum of chance v */
static void attend(const Work *w, const Range *r, const State *s)
{
    const real scale = 1 / root(HEAD);
    for (int i = r->result0; i < r->results; i++) {
        int rows[POSITIONS], keys = keys_of(w, r, i, rows), scores = keys * HEADS;
        const real *k[POSITIONS];
        real *chance = s->chance + i * SCORES, most[HEADS], total[HEADS];
        for (int j = 0; j < keys; j++) k[j] = s->kv + rows[j] * 2 * WIDTH;
        head_products(keys, s->q + r->query_of[i] * WIDTH, k, chance);
        for (int h = 0; h < HEADS; h++) most[h] = chance[h];
        for (int j = 1; j < keys; j++)
            for (int h = 0; h < HEADS; h++) most[h] = larger(most[h], chance[j * HEADS + h]);
        for (int j = 0; j < keys; j++)
            for (int h = 0; h < HEADS; h++)
                chance[j * HEADS + h] = (chance[j * HEADS + h] - most[h]) * scale;
        for (int e = 0; e < scores; e += LANES) V(chance + e) = exponential(C(chance + e));
        for (int h = 0; h < HEADS; h++) total[h] = chance[h];
        for (int j = 1; j < keys; j++)
            for (int h = 0; h < HEADS; h++) total[h] += chance[j * HEADS + h];
        for (int h = 0; h < HEADS; h++) total[h] = 1 / total[h];
        for (int j = 0; j < keys; j++)
            for (int h = 0; h < HEADS; h++) chance[j * HEADS + h] *= total[h];
        for (int d = 0; d < WIDTH; d += LANES) {
            vec mixed = splat(0);
            for (int j = 0; j < keys; j++)
                mixed = madd(splat(chance[j * HEADS + d / HEAD]), C(k[j] + WIDTH + d), mixed);
            V(s->mixed + i * WIDTH + d) = mixed;
        }
    }
}

/* Adds to dq and dkv, given dmixed. With dchance_j = dmixed v_j, the softmax has
 * dscore_j = chance_j (dchance_j - sum over keys of chance dchance), and then
 * dq += dscore_j k_j / sqrt(HEAD), dk_j += dscore_j q / sqrt(HEAD), dv_j += chance_j dmixed. */
static void attend_back(const Work *w, const Range *r, const State *s, const real *dmixed, real *dq, real *dkv)
{
    const real scale = 1 / root(HEAD);
    for (int i = r->result0; i < r->results; i++, dmixed += WIDTH) {
        int rows[POSITIONS], keys = keys_of(w, r, i, rows);
        const real *q = s->q + r->query_of[i] * WIDTH, *chance = s->chance + i * SCORES;
        const real *v[POSITIONS];
        real slope[SCORES], mean[HEADS];
        vec by_q[WIDTH / LANES];
        for (int j = 0; j < keys; j++) v[j] = s->kv + rows[j] * 2 * WIDTH + WIDTH;
        head_products(keys, dmixed, v, slope);
        for (int h = 0; h < HEADS; h++) mean[h] = 0;
        for (int j = 0; j < keys; j++)
            for (int h = 0; h < HEADS; h++) mean[h] += chance[j * HEADS + h] * slope[j * HEADS + h];
        for (int j = 0; j < keys; j++)
            for (int h = 0; h < HEADS; h++)
                slope[j * HEADS + h] = chance[j * HEADS + h] * (slope[j * HEADS + h] - mean[h]) * scale;
        for (int d = 0; d < WIDTH / LANES; d++) by_q[d] = C(dq + r->query_of[i] * WIDTH + d * LANES);
        for (int j = 0; j < keys; j++) {
            const real *k = v[j] - WIDTH;
            real *dk = dkv + rows[j] * 2 * WIDTH, *dv = dk + WIDTH;
            for (int d = 0; d < WIDTH; d += LANES) {
                vec ds = splat(slope[j * HEADS + d / HEAD]), p = splat(chance[j * HEADS + d / HEAD]);
                by_q[d / LANES] = madd(ds, C(k + d), by_q[d / LANES]);
                V(dk + d) = madd(ds, C(q + d), C(dk + d));
                V(dv + d) = madd(p, C(dmixed + d), C(dv + d));
            }
        }
        for (int d = 0; d < WIDTH / LANES; d++) V(dq + r->query_of[i] * WIDTH + d * LANES) = by_q[d];
    }
}

/* --- A layer ----------------------------------------------------------------------------------- */

/* From its input to its output y, by result: middle = x + attention(norm1 x), and
 * y = middle + weight2 relu(weight1 norm2 middle) */
static void layer_forward(const Work *w, const Parameters *parameters, int l, real *y)
{
    const Layer *p = &parameters->layers[l];
    const Range r = range_of(w, l);
    const State *s = &w->states[l];
    const real *in_weight = w->turned->layers[l].in_weight;
    int rows = r.rows - r.row0, m = r.results - r.result0;
    real *normed1 = s->normed1 + r.row0 * WIDTH, *middle = s->middle + r.result0 * WIDTH;
    real *normed2 = s->normed2 + r.result0 * WIDTH, *inner = s->inner + r.result0 * FEED_FORWARD;
    y += r.result0 * WIDTH;

    layer_norm(rows, s->input + r.row0 * WIDTH, p->norm1_weight, p->norm1_bias, normed1, s->mean1 + r.row0,
               s->scale1 + r.row0);
    affine(rows, WIDTH, 2 * WIDTH, normed1, in_weight + WIDTH, 3 * WIDTH, p->in_bias + WIDTH,
           s->kv + r.row0 * 2 * WIDTH);
    if (r.last) { /* queries of the asked nodes alone */
        real *asked = s->normed_asked + r.result0 * WIDTH;
        for (int i = 0; i < m; i++)
            memcpy(asked + i * WIDTH, s->normed1 + r.row_of_node[r.node_of[r.result0 + i]] * WIDTH,
                   WIDTH * sizeof(real));
        affine(m, WIDTH, WIDTH, asked, in_weight, 3 * WIDTH, p->in_bias, s->q + r.result0 * WIDTH);
    } else {
        affine(rows, WIDTH, WIDTH, normed1, in_weight, 3 * WIDTH, p->in_bias, s->q + r.row0 * WIDTH);
    }
    attend(w, &r, s);
    for (int i = 0; i < m; i++) /* the input, by result */
        memcpy(middle + i * WIDTH, s->input + r.row_of_node[r.node_of[r.result0 + i]] * WIDTH, WIDTH * sizeof(real));
    add_affine(m, WIDTH, WIDTH, middle, s->mixed + r.result0 * WIDTH, w->turned->layers[l].out_weight, p->out_bias,
               middle);
    layer_norm(m, middle, p->norm2_weight, p->norm2_bias, normed2, s->mean2 + r.result0, s->scale2 + r.result0);
    affine_relu(m, WIDTH, FEED_FORWARD, normed2, w->turned->layers[l].weight1, p->bias1, inner);
    add_affine(m, FEED_FORWARD, WIDTH, middle, inner, w->turned->layers[l].weight2, p->bias2, y);
}

/* From dy, by result, to the layer's part of the gradient and dx, by row. Spoils dy. */
static void layer_backward(const Work *w, const Parameters *parameters, Parameters *gradient, int l, real *dy,
                           real *dx)
{
    const Layer *p = &parameters->layers[l];
    Layer *g = &gradient->layers[l];
    const Range r = range_of(w, l);
    const State *s = &w->states[l];
    int rows = r.rows, m = r.results, queries = r.last ? m : rows;

    sum_rows(m, WIDTH, dy, g->bias2);
    turned_product(WIDTH, m, FEED_FORWARD, dy, WIDTH, s->inner, g->weight2);
    product(m, WIDTH, FEED_FORWARD, dy, p->weight2, w->dinner);
    for (int i = 0; i < m * FEED_FORWARD; i++) w->dinner[i] = s->inner[i] > 0 ? w->dinner[i] : 0;
    sum_rows(m, FEED_FORWARD, w->dinner, g->bias1);
    turned_product(FEED_FORWARD, m, WIDTH, w->dinner, FEED_FORWARD, s->normed2, g->weight1);
    product(m, FEED_FORWARD, WIDTH, w->dinner, p->weight1, w->dnormed);
    layer_norm_back(m, w->dnormed, s->middle, p->norm2_weight, s->mean2, s->scale2, dy, g->norm2_weight,
                    g->norm2_bias);

    /* dy is the gradient of `middle` now */
    sum_rows(m, WIDTH, dy, g->out_bias);
    turned_product(WIDTH, m, WIDTH, dy, WIDTH, s->mixed, g->out_weight);
    product(m, WIDTH, WIDTH, dy, p->out_weight, w->dnormed);
    memset(w->dq, 0, (size_t)queries * WIDTH * sizeof(real));
    memset(w->dkv, 0, (size_t)rows * 2 * WIDTH * sizeof(real));
    attend_back(w, &r, s, w->dnormed, w->dq, w->dkv);

    sum_rows(queries, WIDTH, w->dq, g->in_bias);
    sum_rows(rows, 2 * WIDTH, w->dkv, g->in_bias + WIDTH);
    turned_product(WIDTH, queries, WIDTH, w->dq, WIDTH, r.last ? s->normed_asked : s->normed1, g->in_weight);
    turned_product(2 * WIDTH, rows, WIDTH, w->dkv, 2 * WIDTH, s->normed1, g->in_weight + WIDTH * WIDTH);
    product(rows, 2 * WIDTH, WIDTH, w->dkv, p->in_weight + WIDTH * WIDTH, w->dnormed);
    if (r.last) {
        real *dasked = w->dinner; /* free again */
        product(m, WIDTH, WIDTH, w->dq, p->in_weight, dasked);
        for (int i = 0; i < m; i++) {
            real *to = w->dnormed + r.row_of_node[r.node_of[i]] * WIDTH;
            for (int d = 0; d < WIDTH; d += LANES) V(to + d) += C(dasked + i * WIDTH + d);
        }
    } else {
        add_product(rows, WIDTH, WIDTH, w->dq, p->in_weight, w->dnormed);
    }
    memset(dx, 0, (size_t)rows * WIDTH * sizeof(real));
    for (int i = 0; i < m; i++) {
        real *to = dx + r.row_of_node[r.node_of[i]] * WIDTH;
        for (int d = 0; d < WIDTH; d += LANES) V(to + d) += C(dy + i * WIDTH + d);
    }
    layer_norm_back(rows, w->dnormed, s->input, p->norm1_weight, s->mean1, s->scale1, dx, g->norm1_weight,
                    g->norm1_bias);
}

/* --- The model --------------------------------------------------------------------------------- */

/* The next token's distribution at all asked nodes, at a temperature. What the tree has got since
 * the last call is computed; what was there before is kept. */
static void forward(Work *w, const Parameters *p)
{
    for (int i = w->done_pairs; i < w->tree->pairs; i++)
        for (int d = 0; d < WIDTH; d += LANES)
            V(w->states[0].input + i * WIDTH + d) =
                C(p->tokens + w->tree->token[i] * WIDTH + d) + C(p->positions + w->tree->position[i] * WIDTH + d);
    for (int l = 0; l < LAYERS; l++) layer_forward(w, p, l, l < LAYERS - 1 ? w->states[l + 1].input : w->output);

    int from = w->done_results;
    affine(w->tree->results - from, WIDTH, LOGITS, w->output + from * WIDTH, w->turned->head_weight, LOGITS,
           w->turned->head_bias, w->log_prob + from * LOGITS);
    for (int i = from; i < w->tree->results; i++) { /* log-softmax, and softmax */
        real *x = w->log_prob + i * LOGITS, *e = w->chance + i * LOGITS, most = x[0];
        for (int c = 1; c < CLASSES; c++) most = larger(most, x[c]);
        for (int c = 0; c < LOGITS; c += LANES) {
            V(x + c) = (C(x + c) - most) / w->temperature;
            V(e + c) = exponential(C(x + c));
        }
        for (int c = CLASSES; c < LOGITS; c++) e[c] = 0;
        vec total = splat(0);
        for (int c = 0; c < LOGITS; c += LANES) total += C(e + c);
        real all = sum(total), shift = logarithm(all), inverse = 1 / all;
        for (int c = 0; c < LOGITS; c += LANES) {
            V(x + c) -= shift;
            V(e + c) *= inverse;
        }
    }
    w->done_pairs = w->tree->pairs, w->done_nodes = w->tree->nodes, w->done_results = w->tree->results;
}

/* The gradient of a loss, given its slope by the log-probability of each target (n, asked) and, unless
 * 0, by each hidden state (n, asked, WIDTH) */
static void backward(Work *w, const Parameters *p, Parameters *g, int n, const int64_t *targets,
                     const real *by_log_prob, const real *by_hidden)
{
    int m = w->tree->results, asked = n * w->tree->asked_of_each;
    real padded[LOGITS * WIDTH] = {0};
    memset(g->tokens, 0, sizeof g->tokens);
    memset(g->positions, 0, sizeof g->positions);
    memset(g->head_bias, 0, sizeof g->head_bias);
    memset(w->dlogits, 0, (size_t)m * LOGITS * sizeof(real));
    for (int i = 0; i < asked && by_log_prob; i++) { /* of a log-softmax: 1 at the target, less softmax */
        real *to = w->dlogits + w->tree->result_of[i] * LOGITS, slope = by_log_prob[i] / w->temperature;
        const real *chance = w->chance + w->tree->result_of[i] * LOGITS;
        for (int c = 0; c < LOGITS; c += LANES) V(to + c) = madd(C(chance + c), splat(-slope), C(to + c));
        to[targets[i]] += slope;
    }
    w->done_pairs = w->done_nodes = w->done_results = 0; /* from here on: all of it */

    turned_product(CLASSES, m, WIDTH, w->dlogits, LOGITS, w->output, g->head_weight);
    for (int i = 0; i < m; i++)
        for (int c = 0; c < CLASSES; c++) g->head_bias[c] += w->dlogits[i * LOGITS + c];
    memcpy(padded, p->head_weight, sizeof p->head_weight);
    product(m, LOGITS, WIDTH, w->dlogits, padded, w->doutput);
    for (int i = 0; i < asked && by_hidden; i++)
        for (int d = 0; d < WIDTH; d += LANES)
            V(w->doutput + w->tree->result_of[i] * WIDTH + d) += C(by_hidden + i * WIDTH + d);
    for (int l = LAYERS - 1; l >= 0; l--) {
        layer_backward(w, p, g, l, w->doutput, w->dinput);
        if (l) memcpy(w->doutput, w->dinput, (size_t)w->tree->nodes * WIDTH * sizeof(real));
    }
    for (int i = 0; i < w->tree->pairs; i++)
        for (int d = 0; d < WIDTH; d += LANES) {
            vec dx = C(w->dinput + i * WIDTH + d);
            V(g->tokens + w->tree->token[i] * WIDTH + d) += dx;
            V(g->positions + w->tree->position[i] * WIDTH + d) += dx;
        }
}

/* --- What Python calls ------------------------------------------------------------------------- */

#define EXPORT __attribute__((visibility("default")))

/* Whether this processor has the instructions of the oldest that is built for: to be asked first */
EXPORT int64_t engine_runs_here(void)
{
#ifdef __x86_64__
    unsigned a, b, c, d, fma = 0, avx2 = 0;
    if (__get_cpuid(1, &a, &b, &c, &d)) fma = c >> 12 & c >> 27 & 1; /* and what AVX needs of the system */
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) avx2 = b >> 5 & 1;
    return fma && avx2;
#else
    return 1;
#endif
}

EXPORT int64_t engine_parameters(void) { return PARAMETERS; }

/* Bytes of the blocks that trees of up to so many nodes need, and passes over them */
EXPORT int64_t engine_tree_bytes(int64_t nodes)
{
    Tree t;
    return (int64_t)lay_out_tree(&t, 0, (size_t)nodes);
}

EXPORT int64_t engine_work_bytes(int64_t nodes)
{
    Work w;
    return (int64_t)lay_out_work(&w, 0, (size_t)nodes);
}

/* Make blocks of that many bytes ready */
EXPORT void engine_prepare_tree(Tree *t, int64_t nodes)
{
    lay_out_tree(t, (char *)t, (size_t)nodes);
    for (int i = 0; i < nodes; i++) t->itself[i] = i;
}

EXPORT void engine_prepare_work(Work *w, int64_t nodes, Tree *t)
{
    lay_out_work(w, (char *)w, (size_t)nodes);
    w->tree = t;
}

/* Whether all n tokens are below `end`, and none is negative */
static int are_below(int64_t end, int64_t n, const int64_t *tokens)
{
    int fine = 1;
    for (int64_t i = 0; i < n; i++) fine &= (uint64_t)tokens[i] < (uint64_t)end;
    return fine;
}

static void begin(Work *w, const Parameters *p, double temperature)
{
    w->temperature = (real)temperature;
    w->done_pairs = w->done_nodes = w->done_results = 0;
    turn_weights(p, w->turned);
}

/* The functions below refuse tokens that there are not: they return -1, and have done nothing. */

/* The tree of sequences (n, length), to ask for what follows positions first, first + 1, ... Returns its
 * nodes: n length at most. */
EXPORT int64_t engine_plant(Tree *t, int64_t n, int64_t length, int64_t first, const int64_t *sequences)
{
    if (!are_below(VOCABULARY, n * length, sequences)) return -1;
    plant(t, (int)n, (int)length, sequences, 0, 0, (int)first);
    return t->nodes;
}

/* Of the n sequences planted: log-probabilities of `targets` (n, asked), sampled at a temperature, unless
 * 0; and hidden states (n, asked, WIDTH) unless 0 */
EXPORT int64_t engine_forward(Work *w, const Parameters *p, int64_t n, const int64_t *targets,
                              double temperature, real *log_probs, real *hidden)
{
    if (targets && !are_below(CLASSES, n * w->tree->asked_of_each, targets)) return -1;
    if (n) begin(w, p, temperature);
    if (n) forward(w, p);
    for (int i = 0; i < n * w->tree->asked_of_each; i++) {
        int at = w->tree->result_of[i];
        if (log_probs) log_probs[i] = w->log_prob[at * LOGITS + targets[i]];
        if (hidden) memcpy(hidden + i * WIDTH, w->output + at * WIDTH, WIDTH * sizeof(real));
    }
    return 0;
}

/* After it, the gradient of a loss with these slopes by log-probabilities and by hidden states, unless 0 */
EXPORT void engine_backward(Work *w, const Parameters *p, Parameters *gradient, int64_t n,
                            const int64_t *targets, const real *by_log_prob, const real *by_hidden)
{
    backward(w, p, gradient, (int)n, targets, by_log_prob, by_hidden);
}

/* One completion (n, more) after each of `prompts` (n, length): each token is the first whose cumulative
 * probability exceeds its uniform (more, n). Also its log-probability, and the entropy of its choice. */
EXPORT int64_t engine_rollout(Work *w, const Parameters *p, int64_t n, int64_t length, const int64_t *prompts,
                              int64_t more, const double *uniforms, double temperature, int64_t *completions,
                              real *log_probs, real *entropy)
{
    Tree *tree = w->tree;
    if (!are_below(VOCABULARY, n * length, prompts)) return -1;
    plant(tree, (int)n, (int)length, prompts, 0, 0, (int)length - 1);
    begin(w, p, temperature);
    for (int t = 0; t < more; t++) {
        forward(w, p);
        for (int i = 0; i < n; i++) {
            int at = tree->result_of[i], token = 0;
            const real *x = w->log_prob + at * LOGITS, *e = w->chance + at * LOGITS;
            const real uniform = (real)uniforms[t * n + i];
            vec spread = splat(0);
            for (real up_to = e[0]; token < CLASSES - 1 && up_to <= uniform; up_to += e[token]) token++;
            for (int c = 0; c < LOGITS; c += LANES) spread = madd(C(e + c), -C(x + c), spread);
            completions[i * more + t] = token;
            log_probs[i * more + t] = x[token];
            entropy[i * more + t] = sum(spread);
            if (t + 1 < more) tree->result_of[i] = ask(tree, follow(tree, tree->asked[at], token));
        }
    }
    return 0;
}

/* Whether greedy decoding gives `solutions` (n, more) after `prompts` (n, length), of tied tokens the
 * lowest; and the log-probability of each solution (n,). In parts, which stay in the cache. */
EXPORT int64_t engine_grade(Work *w, const Parameters *p, int64_t n, int64_t part, int64_t length,
                            const int64_t *prompts, int64_t more, const int64_t *solutions, double temperature,
                            uint8_t *correct, double *log_probability)
{
    Tree *tree = w->tree;
    if (!are_below(VOCABULARY, n * length, prompts) || !are_below(CLASSES, n * more, solutions)) return -1;
    begin(w, p, temperature);
    for (int64_t from = 0; from < n; from += part) {
        int64_t some = n - from < part ? n - from : part;
        plant(tree, (int)some, (int)length, prompts + from * length, (int)more, solutions + from * more,
              (int)length - 1);
        w->done_pairs = w->done_nodes = w->done_results = 0;
        forward(w, p);
        for (int64_t i = 0; i < some; i++) {
            correct[from + i] = 1, log_probability[from + i] = 0;
            for (int64_t t = 0; t < more; t++) {
                const real *x = w->log_prob + tree->result_of[i * more + t] * LOGITS;
                int64_t token = solutions[(from + i) * more + t];
                for (int c = 0; c < CLASSES; c++) correct[from + i] &= c < token ? x[c] < x[token] : x[c] <= x[token];
                log_probability[from + i] += x[token];
            }
        }
    }
    return 0;
}

static double power(double base, int64_t exponent)
{
    double x = 1;
    for (; exponent; exponent >>= 1, base *= base)
        if (exponent & 1) x *= base;
    return x;
}

/* A step of Adam, after clipping the gradient to `max_norm`. Returns its norm before. */
EXPORT double engine_adam(real *restrict values, const real *restrict gradient, real *restrict means,
                          real *restrict squares, int64_t step, double learning_rate, double max_norm)
{
    vec s[4] = {splat(0), splat(0), splat(0), splat(0)};
    int i = 0;
    for (; i + 4 * LANES <= PARAMETERS; i += 4 * LANES)
        for (int k = 0; k < 4; k++) s[k] = madd(C(gradient + i + k * LANES), C(gradient + i + k * LANES), s[k]);
    real total = sum((s[0] + s[1]) + (s[2] + s[3]));
    for (; i < PARAMETERS; i++) total += gradient[i] * gradient[i];
    double norm = __builtin_sqrt(total), ratio = max_norm / (norm + 1e-6);
    const real clip = (real)(ratio < 1 ? ratio : 1);
    const real rate = (real)(learning_rate / (1 - power(0.9, step)));
    const real correction = (real)(1 / __builtin_sqrt(1 - power(0.999, step)));
    for (i = 0; i < PARAMETERS; i++) {
        real g = gradient[i] * clip;
        real m = means[i] += (real)0.1 * (g - means[i]);
        real v = squares[i] = (real)0.999 * squares[i] + (real)0.001 * (g * g);
        values[i] -= rate * m / (root(v) * correction + (real)1e-8);
    }
    return norm;
}
