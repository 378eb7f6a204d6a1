/* Models packaged by Rushlight: what each shared object exports.  C99 and C++.
 *
 * A model is created once and run by any number of threads; calls at the same time compute side by side.  Inputs and
 * outputs are dense arrays of the shapes, strides (in elements) and dtypes that rl_input and rl_output tell; outputs do
 * not overlap inputs.  Where sizes vary these are an example's: rl_run_sized takes the shapes of its inputs, which are
 * dense in row-major order, and rl_output_sizes tells those of its outputs.  Nothing is printed, and nothing aborts.
 */
#ifndef RUSHLIGHT_H
#define RUSHLIGHT_H
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

enum { RL_VERSION = 5 }; /* of this interface */

typedef struct rl_model rl_model;

enum { RL_FLOAT32 = 1, RL_FLOAT64, RL_FLOAT16, RL_BFLOAT16, RL_INT8, RL_UINT8, RL_INT16, RL_INT32, RL_INT64, RL_BOOL, RL_COMPLEX64, RL_COMPLEX128 };

typedef struct {
    const char *name;
    int64_t dtype, rank;
    const int64_t *shape, *strides;
    int64_t nbytes;
} rl_tensor;

typedef struct {
    const char *name;
    int64_t low, high; /* both included */
} rl_size_range;

/* A DLTensor of DLPack, whose declaration this one stands for: cast the address of yours, or of what has it as its first
 * member (a DLManagedTensor).  strides: of elements, NULL for row-major order; device_type: kDLCPU, or memory of the
 * processor that is pinned for a GPU (kDLCUDAHost, kDLROCMHost). */
typedef struct {
    void *data;
    int32_t device_type, device_id, ndim;
    uint8_t code, bits; /* 0 whole, 1 unsigned, 2 float, 4 bfloat, 5 complex, 6 bool; bits of an element */
    uint16_t lanes;     /* 1 */
    int64_t *shape, *strides;
    uint64_t byte_offset;
} rl_dltensor;

int64_t rl_version(void);                 /* of the interface that the library has: RL_VERSION */
const char *rl_manifest(void);            /* what the model is, as JSON */
int64_t rl_input_count(void);
int64_t rl_output_count(void);
int64_t rl_constant_count(void);
const rl_tensor *rl_input(int64_t k);     /* NULL where there is no such number */
const rl_tensor *rl_output(int64_t k);
const rl_tensor *rl_constant(int64_t k);  /* weights and buffers, by the names they had */
int64_t rl_size_count(void);              /* sizes that vary */
const rl_size_range *rl_size(int64_t k);
int64_t rl_supported(void);               /* 0: this processor lacks instructions that the model was compiled for */
rl_model *rl_create(void);                /* NULL: not supported, no memory, or the weights lie beside */
rl_model *rl_create_from(const char *path); /* weights are mapped from the package, or from what lies in it as weights; NULL also where these are not the model's */
rl_model *rl_create_with(const void *weights); /* that the caller has in memory, 64-byte aligned: what follows their header of 64 bytes */
rl_model *rl_create_level(const char *path, const void *weights, int64_t level); /* as rl_create_from, or with NULL for path as rl_create_with, by this one of the levels; NULL also where this processor lacks its instructions; -1: the best one that it has */
const char *rl_level_name(int64_t level);  /* NULL where there is no such level */
int64_t rl_supports(int64_t level);        /* whether this processor has its instructions */
int64_t rl_verify(const rl_model *model); /* 1: the mapped weights have their checksum; reads all of them */
int64_t rl_run(rl_model *model, const void *const *inputs, void *const *outputs); /* 0, or what rl_error puts into words */
int64_t rl_run_sized(rl_model *model, const void *const *inputs, const int64_t *const *shapes, void *const *outputs); /* shapes: of each input */
int64_t rl_run_dlpack(rl_model *model, const rl_dltensor *const *inputs, const rl_dltensor *const *outputs); /* rl_run_sized on tensors that tell what they are: each is compared with what the model takes and gives, and used where it lies; the caller keeps them.  Not in WebAssembly */
int64_t rl_output_sizes(const int64_t *const *shapes, int64_t *sizes); /* of each output its shape, then its strides */
const char *rl_error(int64_t code);       /* -100 - k: the sizes of input k are not among those that the model was packaged for; -65536 n - k: tensor k (outputs after inputs) has another dtype (n = 1), device (2), shape (3), strides (4) */
int64_t rl_set_constant(rl_model *model, int64_t k, const void *data); /* the model reads it there from now on; 0, or what rl_error puts into words.  Calls that began before may still read it elsewhere: what lay there may go once rl_running was 0 */
int64_t rl_running(const rl_model *model); /* how many calls run now */
void rl_threads(int64_t count);           /* that kernels run on, from 1 to what the manifest says */
int64_t rl_level(const rl_model *model);   /* which of the levels that the manifest names runs: the last one whose instructions this processor has */
void rl_destroy(rl_model *model);
void rl_launch(void *const *slots, int64_t begin, int64_t end, int64_t worker); /* a run as a kernel of a program: slots are where a code goes that is not 0, the model, shapes, inputs, outputs */

#ifdef __cplusplus
}
#endif
#endif
