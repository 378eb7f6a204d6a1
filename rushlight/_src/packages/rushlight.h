/* Models packaged by Rushlight: what each shared object exports.  C99 and C++.
 *
 * A model is created once and run by any number of threads; calls at the same time compute side by side.  Inputs and outputs are dense arrays of the
 * shapes, strides (in elements) and dtypes that rl_input and rl_output tell; outputs do not overlap inputs.  Nothing is printed, and nothing aborts.
 */
#ifndef RUSHLIGHT_H
#define RUSHLIGHT_H
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef struct rl_model rl_model;

enum { RL_FLOAT32 = 1, RL_FLOAT64, RL_FLOAT16, RL_BFLOAT16, RL_INT8, RL_UINT8, RL_INT16, RL_INT32, RL_INT64, RL_BOOL, RL_COMPLEX64, RL_COMPLEX128 };

typedef struct {
    const char *name;
    int64_t dtype, rank;
    const int64_t *shape, *strides;
    int64_t nbytes;
} rl_tensor;

int64_t rl_version(void);                 /* of this interface: 1 */
const char *rl_manifest(void);            /* what the model is, as JSON */
int64_t rl_input_count(void);
int64_t rl_output_count(void);
int64_t rl_constant_count(void);
const rl_tensor *rl_input(int64_t k);     /* NULL where there is no such number */
const rl_tensor *rl_output(int64_t k);
const rl_tensor *rl_constant(int64_t k);  /* weights and buffers, by the names they had */
int64_t rl_supported(void);               /* 0: this processor lacks instructions that the model was compiled for */
rl_model *rl_create(void);                /* NULL: not supported, or no memory */
int64_t rl_run(rl_model *model, const void *const *inputs, void *const *outputs); /* 0, or what rl_error puts into words */
const char *rl_error(int64_t code);
void rl_set_constant(rl_model *model, int64_t k, const void *data); /* the model reads it there from now on; NULL is not allowed */
void rl_threads(int64_t count);           /* that kernels run on, from 1 to what the manifest says */
void rl_destroy(rl_model *model);

#ifdef __cplusplus
}
#endif
#endif
