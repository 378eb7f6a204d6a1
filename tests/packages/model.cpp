/* model.so package level: what rushlight.hpp does with a model of Linear(24, 48), relu, Linear(48, 8) + y, and sums. */
#include <cmath>
#include <cstdio>
#include <iostream>
#include <thread>
#include "rushlight.hpp"

using rushlight::Model;
using rushlight::View;
using rushlight::view;

struct Device { int32_t type, id; };
struct Type { uint8_t code, bits; uint16_t lanes; };
struct DLTensor { /* as dlpack.h declares it */
    void *data;
    Device device;
    int32_t ndim;
    Type dtype;
    int64_t *shape, *strides;
    uint64_t byte_offset;
};

static int failures;

static void expect(bool fine, const char *what) {
    if (!fine) failures++, std::cout << "FAILED: " << what << "\n";
}

template <class F> static void refused(F call, const std::string &words, int64_t code) {
    try {
        call();
    } catch (const rushlight::Error &error) {
        if (std::string(error.what()).find(words) == std::string::npos || error.code != code)
            failures++, std::cout << "FAILED: " << error.what() << " (" << error.code << "), wanted " << words << "\n";
        return;
    }
    failures++, std::cout << "FAILED: no error with " << words << "\n";
}

static std::vector<float> ramp(size_t count, float by) {
    std::vector<float> made(count);
    for (size_t k = 0; k < count; k++) made[k] = std::sin(by * static_cast<float>(k));
    return made;
}

static bool close(const float *a, const float *b, size_t count, float shift = 0) {
    for (size_t k = 0; k < count; k++)
        if (!(std::fabs(a[k] + shift - b[k]) < 1e-4f)) return false;
    return true;
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    for (int64_t k = RL_FLOAT32; k <= RL_COMPLEX128; k++) {
        rl_dltensor told = View(static_cast<void *>(nullptr), k, {}).tensor();
        std::printf("%d:%d ", told.code, told.bits);
    }
    std::printf("\n");
    std::unique_ptr<Model> made;
    try {
        made = std::make_unique<Model>(argv[1], argv[2], argv[3]);
    } catch (const rushlight::Error &error) {
        std::cout << error.what() << "\n";
        return 1;
    }
    Model model = std::move(*made);
    made.reset();
    std::cout << model.level() << "\n";
    expect(model.inputs().size() == 2 && model.outputs().size() == 2 && model.constants().size() == 4, "counts");
    expect(model.inputs()[0].shape == std::vector<int64_t>({6, 24}) && model.inputs()[0].dtype == RL_FLOAT32, "metadata");
    expect(model.verify() && model.running() == 0 && model.manifest().find("\"inputs\"") != std::string::npos, "state");
    model.threads(1);
    const int64_t n = model.sizes().empty() ? 6 : 11;
    expect(model.sizes().empty() || (model.sizes()[0].low == 1 && model.sizes()[0].high == 64), "sizes");
    const std::vector<float> x = ramp(static_cast<size_t>(n) * 24, 0.1f), y = ramp(static_cast<size_t>(n) * 8, 0.3f);
    std::vector<View> inputs{view(x, {n, 24}), view(y, {n, 8})};
    std::vector<rushlight::Tensor> results = model.run(inputs);
    expect(results[0].shape == std::vector<int64_t>({n, 8}) && results[1].shape == std::vector<int64_t>({n}), "shapes");
    const float *first = results[0].data<float>();
    for (int64_t k = 0; k < n * 8; k++) std::printf("%.6g ", first[k]);
    for (int64_t k = 0; k < n; k++) std::printf("%.6g ", results[1].data<float>()[k]);
    std::printf("\n");

    std::vector<float> scores(static_cast<size_t>(n) * 8), sums(static_cast<size_t>(n));
    model.run(inputs, {view(scores, {n, 8}), view(sums, {n})});
    expect(close(first, scores.data(), scores.size()), "views");
    if (n == 6) {
        std::vector<float> again(scores.size());
        const void *from[] = {x.data(), y.data()};
        void *to[] = {again.data(), sums.data()};
        model.run(from, to);
        expect(close(first, again.data(), again.size()), "addresses");
    }
    int64_t shape[] = {n, 24}, strides[] = {24, 1};
    DLTensor told{const_cast<float *>(x.data()) - 1, {1, 0}, 2, {2, 32, 1}, shape, strides, 4};
    expect(close(model.run({View::of(told), inputs[1]})[0].data<float>(), first, scores.size()), "a DLTensor");
    std::vector<std::thread> threads;
    for (int k = 0; k < 8; k++)
        threads.emplace_back([&, k] {
            for (int turn = 0; turn < 20; turn++)
                if (!close(model.run(inputs)[0].data<float>(), first, scores.size())) std::printf("FAILED: thread %d\n", k);
        });
    for (std::thread &one : threads) one.join();

    std::vector<double> doubles(x.begin(), x.end());
    refused([&] { model.run({view(doubles, {n, 24}), inputs[1]}); }, "dtype of a tensor", -65536);
    refused([&] { model.run({inputs[0], View(y.data(), RL_FLOAT32, {n, 8}, {1, n})}); }, "strides", -4 * 65536 - 1);
    refused([&] { model.run({inputs[0]}); }, "2 inputs, but got 1", 0);
    refused([&] { model.run({view(x, {n * 24}), inputs[1]}); }, "sizes of an input", -100);
    refused([&] { model.run({inputs[0], view(y, {8, n})}); }, "sizes of an input", -101);
    refused([&] { model.run(inputs, {view(scores, {8, n}), view(sums, {n})}); }, "shape of an output", -3 * 65536 - 2);
    refused([&] { view(x, {n, 25}); }, "count of elements", 0);
    told.device.type = 2;
    refused([&] { model.run({View::of(told), inputs[1]}); }, "device", -2 * 65536);
    refused([&] { results[0].data<double>(); }, "another type", 0);
    refused([&] { Model other(argv[1], argv[2], "abacus"); }, "abacus", 0);
    refused([&] { Model other("nothing.so", ""); }, "nothing.so", 0);

    std::vector<float> bias(8, 3.0f);
    std::vector<float> before(8);
    refused([&] { model.set_constant("last.bias", view(bias, {1, 8})); }, "shape of last.bias", 0);
    refused([&] { model.set_constant("bias", view(bias, {8})); }, "no constant bias", 0);
    model.set_constant("last.bias", view(bias, {8}));
    model.run(inputs, {view(scores, {n, 8}), view(sums, {n})});
    for (size_t k = 0; k < 8; k++) before[k] = first[k] - scores[k] + 3.0f;
    expect(std::fabs(before[0] - 3.0f) > 1e-3f, "a constant that is set");
    model.set_constant("last.bias", view(before, {8}));
    expect(close(model.run(inputs)[0].data<float>(), first, scores.size()), "a constant that is set again");
    Model second(argv[1], argv[2]);
    model = std::move(second); /* the first model goes, the library stays */
    expect(close(model.run(inputs)[0].data<float>(), first, scores.size()), "a model that took another's place");
    std::cout << (failures ? "failed" : "fine") << "\n";
    return failures != 0;
}
