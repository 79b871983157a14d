/* A program around engine.c for machines without Python, and for sanitizers: some training, sampling
 * and exams with numbers of its own, and a hash of all that came of them. */
#include ENGINE

#include <stdio.h>
#include <stdlib.h>

enum { N = 40, LENGTH = 7, MORE = 3, SEQUENCE = 9 };

static uint64_t state = 1, hash = 14695981039346656037ull;

/* Uniform on [0, 1), by Knuth's linear congruential generator */
static double uniform(void)
{
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (double)(state >> 11) / 9007199254740992.0;
}

/* FNV-1a */
static void digest(const void *data, size_t size)
{
    for (size_t i = 0; i < size; i++) hash = (hash ^ ((const unsigned char *)data)[i]) * 1099511628211ull;
}

/* Exactly as large as is needed, so that a sanitizer sees what lies outside */
static void *room(int64_t size)
{
    void *p = calloc(1, (size_t)size);
    if (!p) exit(2);
    return p;
}

static void draw(int64_t count, int64_t end, int64_t *tokens)
{
    for (int64_t i = 0; i < count; i++) tokens[i] = (int64_t)(uniform() * (double)end);
}

int main(void)
{
    size_t parameters = (size_t)engine_parameters(), bytes = parameters * sizeof(real);
    real *values = room((int64_t)bytes), *gradient = room((int64_t)bytes);
    real *means = room((int64_t)bytes), *squares = room((int64_t)bytes);
    for (size_t i = 0; i < parameters; i++) values[i] = (real)((uniform() - 0.5) * 0.4);
    const Parameters *p = (const Parameters *)values;

    Tree *tree = room(engine_tree_bytes(N * POSITIONS));
    engine_prepare_tree(tree, N * POSITIONS);
    Work *work = room(engine_work_bytes(N * POSITIONS));
    engine_prepare_work(work, N * POSITIONS, tree);

    int64_t *prompts = room(N * LENGTH * 8), *sequences = room(N * SEQUENCE * 8);
    int64_t *completions = room(N * MORE * 8);
    real *log_probs = room(N * MORE * sizeof(real)), *slopes = room(N * MORE * sizeof(real));
    real *entropy = room(N * MORE * sizeof(real)), *hidden = room(N * MORE * WIDTH * sizeof(real));
    double *uniforms = room(MORE * N * 8), *success = room(N * 8);
    uint8_t *correct = room(N);

    for (int step = 1; step <= 12; step++) {
        double temperature = step % 2 ? 1 : 0.7;
        draw(N * LENGTH, VOCABULARY, prompts);
        for (int i = 0; i < N; i += 3) /* some prompts stand there twice */
            memcpy(prompts + i * LENGTH, prompts, LENGTH * 8);
        for (int i = 0; i < MORE * N; i++) uniforms[i] = uniform();
        if (engine_rollout(work, p, N, LENGTH, prompts, MORE, uniforms, temperature, completions, log_probs, entropy))
            return 3;
        digest(completions, N * MORE * 8), digest(log_probs, N * MORE * sizeof(real));
        digest(entropy, N * MORE * sizeof(real));

        for (int i = 0; i < N; i++) {
            memcpy(sequences + i * SEQUENCE, prompts + i * LENGTH, LENGTH * 8);
            memcpy(sequences + i * SEQUENCE + LENGTH, completions + i * MORE, (MORE - 1) * 8);
        }
        int by_hidden = step % 4 == 0; /* now and then a loss of hidden states */
        if (engine_plant(tree, N, SEQUENCE, LENGTH - 1, sequences) < 0) return 4;
        if (engine_forward(work, p, N, completions, temperature, log_probs, hidden)) return 5;
        for (int i = 0; i < N * MORE; i++) slopes[i] = (real)0.02 * log_probs[i];
        engine_backward(work, p, (Parameters *)gradient, N, completions, by_hidden ? 0 : slopes, by_hidden ? hidden : 0);
        double norm = engine_adam(values, gradient, means, squares, step, 1e-3, 1.0);
        digest(&norm, 8), digest(hidden, N * MORE * WIDTH * sizeof(real)), digest(gradient, bytes);

        if (engine_grade(work, p, N, 7, LENGTH, prompts, MORE, completions, temperature, correct, success)) return 6;
        digest(correct, N), digest(success, N * 8);
    }
    digest(values, bytes);
    completions[1] = CLASSES; /* refused, not computed */
    if (engine_forward(work, p, N, completions, 1, log_probs, 0) != -1) return 7;
    sequences[2] = -1;
    if (engine_plant(tree, N, SEQUENCE, LENGTH - 1, sequences) != -1) return 8;

    printf("%016llx\n", (unsigned long long)hash);
    void *all[] = {values, gradient, means, squares, tree, work, prompts, sequences, completions, log_probs,
                   slopes, entropy, hidden, uniforms, success, correct};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    return 0;
}
