/* Models packaged by Rushlight, in C++17: what rushlight.h has, with objects that free what they hold and exceptions.
 *
 *     rushlight::Model model("model.so", "model.pt2");
 *     std::vector<float> pixels(3 * 224 * 224), scores(1000);
 *     model.run({rushlight::view(pixels, {1, 3, 224, 224})}, {rushlight::view(scores, {1, 1000})});
 *     std::vector<rushlight::Tensor> results = model.run({rushlight::view(pixels, {1, 3, 224, 224})});
 *
 * A model may be run by any number of threads at a time.  Whatever does not fit raises rushlight::Error, before
 * anything is computed.  Link with -ldl where the C library wants it.
 */
#ifndef RUSHLIGHT_HPP
#define RUSHLIGHT_HPP
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>
#ifdef _WIN32
#include <windows.h>
#else
#include <dlfcn.h>
#endif
#include "rushlight.h"

namespace rushlight {

/* code: what the C function returned, 0 where there is none. */
struct Error : std::runtime_error {
    int64_t code;
    explicit Error(const std::string &text, int64_t code = 0) : std::runtime_error(text), code(code) {}
};

/* What a tensor of a model is: its dtype as RL_FLOAT32 and its kin, sizes and strides in elements; those of an example
 * where sizes vary. */
struct Info {
    std::string name;
    int64_t dtype;
    std::vector<int64_t> shape, strides;
    int64_t nbytes;
};

/* A size that varies, and its bounds, both included. */
struct Size {
    std::string name;
    int64_t low, high;
};

namespace detail {
struct Kind { uint8_t code, bits; };
inline Kind kind_of(int64_t dtype) { /* as DLPack has it, in the order of RL_FLOAT32 and its kin */
    static const Kind kinds[] = {{2, 32}, {2, 64}, {2, 16}, {4, 16}, {0, 8}, {1, 8},
                                 {0, 16}, {0, 32}, {0, 64}, {6, 8}, {5, 64}, {5, 128}};
    if (dtype < RL_FLOAT32 || dtype > RL_COMPLEX128)
        throw Error("there is no dtype of the number " + std::to_string(dtype));
    return kinds[dtype - 1];
}
template <class T> constexpr int64_t dtype_of() {
    using E = std::remove_cv_t<T>;
    if constexpr (std::is_same_v<E, float>) return RL_FLOAT32;
    else if constexpr (std::is_same_v<E, double>) return RL_FLOAT64;
    else if constexpr (std::is_same_v<E, bool>) return RL_BOOL;
    else if constexpr (std::is_integral_v<E> && sizeof(E) == 1) return std::is_signed_v<E> ? RL_INT8 : RL_UINT8;
    else if constexpr (std::is_integral_v<E> && std::is_signed_v<E>)
        return sizeof(E) == 2 ? RL_INT16 : sizeof(E) == 4 ? RL_INT32 : RL_INT64;
    else return 0; /* name the dtype: float16, bfloat16 and complex numbers have no type of their own everywhere */
}
inline int64_t count_of(const std::vector<int64_t> &shape) {
    int64_t count = 1;
    for (int64_t n : shape) count *= n;
    return count;
}
} // namespace detail

/* Memory of the caller, with what it holds.  strides: empty for row-major order. */
class View {
  public:
    View(void *data, int64_t dtype, std::vector<int64_t> shape, std::vector<int64_t> strides = {})
        : shape_(std::move(shape)), strides_(std::move(strides)) {
        detail::Kind kind = detail::kind_of(dtype);
        if (!strides_.empty() && strides_.size() != shape_.size())
            throw Error("a view has another number of strides than of sizes");
        tensor_ = {data, 1, 0, static_cast<int32_t>(shape_.size()), kind.code, kind.bits, 1, nullptr, nullptr, 0};
    }
    View(const void *data, int64_t dtype, std::vector<int64_t> shape, std::vector<int64_t> strides = {})
        : View(const_cast<void *>(data), dtype, std::move(shape), std::move(strides)) {} /* inputs are only read */

    /* What a DLTensor describes, or anything of its layout: its shape and strides are copied, its memory is not. */
    template <class T> static View of(const T &tensor) {
        static_assert(sizeof(T) == sizeof(rl_dltensor) && std::is_trivially_copyable_v<T>, "a DLTensor");
        rl_dltensor told;
        std::memcpy(&told, &tensor, sizeof told);
        if (told.ndim < 0 || (told.ndim > 0 && !told.shape)) throw Error("a tensor without a shape");
        View made;
        made.shape_.assign(told.shape, told.shape + told.ndim);
        if (told.strides) made.strides_.assign(told.strides, told.strides + told.ndim);
        made.tensor_ = told;
        return made;
    }

    const std::vector<int64_t> &shape() const { return shape_; }
    void *data() const { return static_cast<char *>(tensor_.data) + tensor_.byte_offset; }

    /* As the C interface takes it, for as long as the view is there and unchanged. */
    rl_dltensor tensor() const {
        rl_dltensor made = tensor_;
        made.shape = const_cast<int64_t *>(shape_.data());
        made.strides = strides_.empty() ? nullptr : const_cast<int64_t *>(strides_.data());
        return made;
    }

  private:
    View() = default;
    std::vector<int64_t> shape_, strides_;
    rl_dltensor tensor_{};
};

/* A view of row-major elements.  Error where the vector has another count of them than the shape. */
template <class T> View view(std::vector<T> &data, std::vector<int64_t> shape) {
    static_assert(detail::dtype_of<T>() != 0 && !std::is_same_v<T, bool>, "use View(address, dtype, shape)");
    if (detail::count_of(shape) != static_cast<int64_t>(data.size()))
        throw Error("a vector has another count of elements than the shape");
    return View(data.data(), detail::dtype_of<T>(), std::move(shape));
}
template <class T> View view(const std::vector<T> &data, std::vector<int64_t> shape) {
    return view(const_cast<std::vector<T> &>(data), std::move(shape)); /* for inputs, which are only read */
}

/* A result that holds its own memory. */
struct Tensor : Info {
    std::vector<unsigned char> bytes;
    void *data() { return bytes.data(); }
    template <class T> T *data() { return const_cast<T *>(std::as_const(*this).template data<T>()); }
    template <class T> const T *data() const {
        if (detail::dtype_of<T>() != dtype) throw Error(name + " has elements of another type");
        return reinterpret_cast<const T *>(bytes.data());
    }
    View view() { return View(bytes.data(), dtype, shape, strides); }
};

/* A model: it may be moved, not copied. */
class Model {
  public:
    /* library: the shared object of the package, package: where its weights are, "" where they lie in the library.
     * level: the code of this one of the levels, "" for the best one that this processor can run. */
    explicit Model(const std::string &library, const std::string &package = "", const std::string &level = "")
        : model_(nullptr, Destroy{opened(library), api_.destroy}) {
        int64_t number = -1;
        if (!level.empty()) {
            for (number = 0; api_.level_name(number) && level != api_.level_name(number);) number++;
            if (!api_.level_name(number)) throw Error(library + " has no code for " + level);
            if (!api_.supports(number))
                throw Error("this processor cannot run the code of " + library + " for " + level);
        }
        if (!api_.supported())
            throw Error("this processor lacks instructions that " + library + " was compiled for");
        model_.reset(api_.create_level(package.empty() ? nullptr : package.c_str(), nullptr, number));
        if (!model_)
            throw Error(library + " has no model: its weights are not in \"" + package + "\", or there is no memory");
    }

    std::vector<Info> inputs() const { return told(api_.input, api_.input_count()); }
    std::vector<Info> outputs() const { return told(api_.output, api_.output_count()); }
    std::vector<Info> constants() const { return told(api_.constant, api_.constant_count()); }
    std::vector<Size> sizes() const {
        std::vector<Size> found;
        for (int64_t k = 0; k < api_.size_count(); k++) {
            const rl_size_range *one = api_.size(k);
            found.push_back({one->name, one->low, one->high});
        }
        return found;
    }
    std::string manifest() const { return api_.manifest(); }
    std::string level() const { return api_.level_name(api_.level(model_.get())); }
    bool verify() const { return api_.verify(model_.get()) != 0; }
    int64_t running() const { return api_.running(model_.get()); }
    void threads(int64_t count) { api_.threads(count); } /* of all models of the library */

    /* Computes outputs, in memory of the caller. */
    void run(const std::vector<View> &inputs, const std::vector<View> &outputs) const {
        count(inputs.size(), api_.input_count(), "inputs");
        count(outputs.size(), api_.output_count(), "outputs");
        Table given(inputs), to(outputs);
        check(api_.run_dlpack(model_.get(), given.pointers.data(), to.pointers.data()));
    }

    /* Computes outputs of its own. */
    std::vector<Tensor> run(const std::vector<View> &inputs) const {
        std::vector<Tensor> results = empty(inputs);
        std::vector<View> views;
        for (Tensor &one : results) views.push_back(one.view());
        run(inputs, views);
        return results;
    }

    /* Addresses of dense memory, as the C function takes them: nothing is known of it, so nothing can be checked. */
    void run(const void *const *inputs, void *const *outputs) const { check(api_.run(model_.get(), inputs, outputs)); }

    /* Has the model read a constant in memory of the caller, which stays there: row-major, or with the strides that
     * constants() tells. */
    void set_constant(const std::string &name, const View &value) {
        std::vector<Info> known = constants();
        for (size_t k = 0; k < known.size(); k++) {
            if (known[k].name != name) continue;
            rl_dltensor tensor = value.tensor();
            detail::Kind kind = detail::kind_of(known[k].dtype);
            if (tensor.code != kind.code || tensor.bits != kind.bits || tensor.lanes != 1)
                throw Error("the dtype of " + name + " is another");
            if (value.shape() != known[k].shape) throw Error("the shape of " + name + " is another");
            if (tensor.device_type != 1 && tensor.device_type != 3 && tensor.device_type != 11) /* as rl_run_dlpack */
                throw Error(name + " lies on a device, and the model reads memory of the processor only");
            if (!laid_out(tensor, known[k].strides))
                throw Error("the elements of " + name + " do not lie as the model reads them: its strides are others");
            check(api_.set_constant(model_.get(), static_cast<int64_t>(k), value.data()));
            return;
        }
        throw Error("there is no constant " + name);
    }

  private:
    struct Table { /* of tensors, as the C function takes them */
        std::vector<rl_dltensor> tensors;
        std::vector<const rl_dltensor *> pointers;
        explicit Table(const std::vector<View> &views) {
            for (const View &one : views) tensors.push_back(one.tensor());
            for (const rl_dltensor &one : tensors) pointers.push_back(&one);
        }
    };

    struct Api { /* functions of the library */
        decltype(&rl_version) version;
        decltype(&rl_manifest) manifest;
        decltype(&rl_error) error;
        decltype(&rl_input_count) input_count;
        decltype(&rl_output_count) output_count;
        decltype(&rl_constant_count) constant_count;
        decltype(&rl_input) input;
        decltype(&rl_output) output;
        decltype(&rl_constant) constant;
        decltype(&rl_size_count) size_count;
        decltype(&rl_size) size;
        decltype(&rl_supported) supported;
        decltype(&rl_supports) supports;
        decltype(&rl_level) level;
        decltype(&rl_level_name) level_name;
        decltype(&rl_create_level) create_level;
        decltype(&rl_destroy) destroy;
        decltype(&rl_verify) verify;
        decltype(&rl_run) run;
        decltype(&rl_run_dlpack) run_dlpack;
        decltype(&rl_output_sizes) output_sizes;
        decltype(&rl_set_constant) set_constant;
        decltype(&rl_running) running;
        decltype(&rl_threads) threads;
    };

#ifdef _WIN32
    static void *load(const std::string &path) { return reinterpret_cast<void *>(LoadLibraryA(path.c_str())); }
    static void *symbol(void *library, const char *name) {
        return reinterpret_cast<void *>(GetProcAddress(static_cast<HMODULE>(library), name));
    }
    static void unload(void *library) {
        if (library) FreeLibrary(static_cast<HMODULE>(library));
    }
    static std::string reason() { return "the library cannot be loaded"; }
#else
    static void *load(const std::string &path) { return dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL); }
    static void *symbol(void *library, const char *name) { return dlsym(library, name); }
    static void unload(void *library) { if (library) dlclose(library); }
    static std::string reason() { const char *text = dlerror(); return text ? text : "the library cannot be loaded"; }
#endif

    std::shared_ptr<void> opened(const std::string &path) {
        std::shared_ptr<void> library(load(path), unload);
        if (!library) throw Error(path + ": " + reason());
        auto find = [&](auto &function, const char *name) {
            void *found = symbol(library.get(), name);
            if (!found) throw Error(path + " is no model of this interface: it has no " + name);
            function = reinterpret_cast<std::decay_t<decltype(function)>>(found);
        };
        find(api_.version, "rl_version");
        if (api_.version() != RL_VERSION)
            throw Error(path + " has another version of the interface: package it anew");
        find(api_.manifest, "rl_manifest");
        find(api_.error, "rl_error");
        find(api_.input_count, "rl_input_count");
        find(api_.output_count, "rl_output_count");
        find(api_.constant_count, "rl_constant_count");
        find(api_.input, "rl_input");
        find(api_.output, "rl_output");
        find(api_.constant, "rl_constant");
        find(api_.size_count, "rl_size_count");
        find(api_.size, "rl_size");
        find(api_.supported, "rl_supported");
        find(api_.supports, "rl_supports");
        find(api_.level, "rl_level");
        find(api_.level_name, "rl_level_name");
        find(api_.create_level, "rl_create_level");
        find(api_.destroy, "rl_destroy");
        find(api_.verify, "rl_verify");
        find(api_.run, "rl_run");
        find(api_.run_dlpack, "rl_run_dlpack");
        find(api_.output_sizes, "rl_output_sizes");
        find(api_.set_constant, "rl_set_constant");
        find(api_.running, "rl_running");
        find(api_.threads, "rl_threads");
        return library;
    }

    template <class F> static std::vector<Info> told(F tensor, int64_t count) {
        std::vector<Info> found;
        for (int64_t k = 0; k < count; k++) {
            const rl_tensor *one = tensor(k);
            found.push_back({one->name, one->dtype, {one->shape, one->shape + one->rank},
                             {one->strides, one->strides + one->rank}, one->nbytes});
        }
        return found;
    }

    /* Results without their values, for these inputs. */
    std::vector<Tensor> empty(const std::vector<View> &inputs) const {
        count(inputs.size(), api_.input_count(), "inputs");
        std::vector<const int64_t *> shapes;
        for (size_t k = 0; k < inputs.size(); k++) {
            if (static_cast<int64_t>(inputs[k].shape().size()) != api_.input(static_cast<int64_t>(k))->rank)
                check(-100 - static_cast<int64_t>(k));
            shapes.push_back(inputs[k].shape().data());
        }
        std::vector<Tensor> results;
        size_t words = 0;
        for (Info &one : outputs()) words += 2 * one.shape.size(), results.push_back({std::move(one), {}});
        std::vector<int64_t> sizes(words + 1);
        check(api_.output_sizes(shapes.data(), sizes.data()));
        const int64_t *at = sizes.data();
        for (Tensor &one : results) {
            size_t rank = one.shape.size();
            one.shape.assign(at, at + rank), one.strides.assign(at + rank, at + 2 * rank), at += 2 * rank;
            int64_t last = detail::count_of(one.shape) ? 1 : 0;
            for (size_t d = 0; d < rank && last; d++) last += (one.shape[d] - 1) * one.strides[d];
            one.nbytes = last * detail::kind_of(one.dtype).bits / 8;
            one.bytes.resize(static_cast<size_t>(one.nbytes));
        }
        return results;
    }

    static bool laid_out(const rl_dltensor &tensor, const std::vector<int64_t> &strides) {
        int64_t dense = 1;
        for (int32_t d = 0; d < tensor.ndim; d++)
            if (!tensor.shape[d]) return true;
        for (int32_t d = tensor.ndim; d-- > 0; dense *= tensor.shape[d])
            if (tensor.shape[d] != 1 &&
                (tensor.strides ? tensor.strides[d] : dense) != strides[static_cast<size_t>(d)])
                return false;
        return true;
    }

    static void count(size_t given, int64_t wanted, const char *what) {
        if (static_cast<int64_t>(given) != wanted)
            throw Error("the model has " + std::to_string(wanted) + " " + what + ", but got " + std::to_string(given));
    }

    /* Error with the words of a code, and which tensor it is about. */
    void check(int64_t code) const {
        if (!code) return;
        std::string text = api_.error(code);
        int64_t inputs = api_.input_count(), k = code <= -65536 ? -code % 65536 : -100 - code;
        if (code <= -100 && code > -(1 << 20)) {
            const rl_tensor *one = k < inputs ? api_.input(k) : api_.output(k - inputs);
            if (one) text += std::string(" (") + one->name + ")";
        }
        throw Error(text, code);
    }

    struct Destroy { /* frees a model; its library stays until that is done */
        std::shared_ptr<void> library;
        decltype(&rl_destroy) destroy = nullptr;
        void operator()(rl_model *model) const { destroy(model); }
    };

    Api api_{};
    std::unique_ptr<rl_model, Destroy> model_;
};

} // namespace rushlight
#endif
