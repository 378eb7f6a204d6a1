/* Models packaged by Rushlight for a GPU of NVIDIA: what model.so of such a package exports.  C99 and C++.
 *
 * Of rushlight.h it has rl_version, rl_manifest, rl_error, rl_destroy, and those that tell inputs, outputs and
 * constants; and the functions below.  It opens the driver's library, libcuda.so.1, when a model is created.  Inputs
 * and outputs lie in memory of the device, and begin at multiples of 16; no call but rl_wait and rl_destroy waits for
 * the device.  A call makes the device's primary context the calling thread's, as the CUDA runtime does.
 */
#ifndef RUSHLIGHT_GPU_H
#define RUSHLIGHT_GPU_H
#include "rushlight.h"
#ifdef __cplusplus
extern "C" {
#endif

/* path: the package, or what lies in it as weights; NULL where it has none.  0, or what rl_error puts into words: -10
 * no driver or device, -11 a device of another architecture, -12 the weights are not there, -2097152 less the status
 * of what the driver refused; then *model is NULL. */
int64_t rl_create_on(const char *path, int64_t device, rl_model **model);

/* Gives a CUstream, or NULL for the first one, the model's kernels.  0, or what rl_error puts into words.  Any number
 * of threads may call; calls of one model follow each other, on whatever streams they are. */
int64_t rl_run_on(rl_model *model, void *stream, const void *const *inputs, void *const *outputs);

/* Until the last call is done.  0, or what kernels have reported since the last time: 1 an index out of range. */
int64_t rl_wait(rl_model *model);

#ifdef __cplusplus
}
#endif
#endif
