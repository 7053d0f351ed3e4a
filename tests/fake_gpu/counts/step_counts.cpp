// Counts what one training step of a small model in BERT's shape asks of imitated devices: step_counts WAY, where WAY
// is alone, dataparallel, ddp or trainer. step_counts.py starts it, and compares with step_counts_torch.py.
#include <dlfcn.h>
#include <torch/torch.h>

#include <cstdio>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/comm/local_device.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/data/tensor_dataset.h"
#include "lockstep/optim/adam.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/replicas/data_parallel.h"
#include "lockstep/train/trainer.h"
#include "tests/fake_gpu/counts/device_counters.h"
#include "tests/support/temporary_folder.h"

namespace {

constexpr std::int64_t kWords = 1000, kWidth = 128, kHeads = 4, kInner = 512, kLayers = 4, kClasses = 4;
constexpr std::int64_t kRows = 8, kLength = 16;  // of a device
constexpr int kStepsBefore = 3, kSteps = 4;      // that are not counted, and that are

struct LayerImpl : torch::nn::Cloneable<LayerImpl> {
  LayerImpl() { LayerImpl::reset(); }
  void reset() override {
    query = register_module("query", torch::nn::Linear(kWidth, kWidth));
    key = register_module("key", torch::nn::Linear(kWidth, kWidth));
    value = register_module("value", torch::nn::Linear(kWidth, kWidth));
    out = register_module("out", torch::nn::Linear(kWidth, kWidth));
    first = register_module("first", torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWidth})));
    up = register_module("up", torch::nn::Linear(kWidth, kInner));
    down = register_module("down", torch::nn::Linear(kInner, kWidth));
    second = register_module("second", torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWidth})));
  }
  at::Tensor forward(const at::Tensor& x) {
    const auto heads = [&](const at::Tensor& rows) {
      return rows.view({x.size(0), x.size(1), kHeads, kWidth / kHeads}).transpose(1, 2);
    };
    const at::Tensor q = heads(query(x)), k = heads(key(x)), v = heads(value(x));
    const at::Tensor weights = torch::softmax(q.matmul(k.transpose(2, 3)) / 8, -1);
    const at::Tensor mixed = weights.matmul(v).transpose(1, 2).reshape(x.sizes());
    const at::Tensor h = first(x + out(mixed));
    return second(h + down(torch::gelu(up(h))));
  }
  torch::nn::Linear query{nullptr}, key{nullptr}, value{nullptr}, out{nullptr}, up{nullptr}, down{nullptr};
  torch::nn::LayerNorm first{nullptr}, second{nullptr};
};
TORCH_MODULE(Layer);

struct EncoderImpl : torch::nn::Cloneable<EncoderImpl> {
  EncoderImpl() { EncoderImpl::reset(); }
  void reset() override {
    words = register_module("words", torch::nn::Embedding(kWords, kWidth));
    layers = register_module("layers", torch::nn::ModuleList());
    for (std::int64_t i = 0; i < kLayers; ++i) layers->push_back(Layer());
    head = register_module("head", torch::nn::Linear(kWidth, kClasses));
  }
  at::Tensor forward(const at::Tensor& ids) {
    at::Tensor h = words(ids);
    for (const auto& layer : *layers) h = layer->as<Layer>()->forward(h);
    return head(h.select(1, 0));
  }
  torch::nn::Embedding words{nullptr};
  torch::nn::ModuleList layers{nullptr};
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(Encoder);

const char* const kCounted[] = {"host_waits",   "launches",    "copies",     "events",
                                "stream_waits", "allocations", "nccl_calls", "nccl_launches"};

class Count {
 public:
  void begin() { before_ = now(); }
  // One line for step_counts.py, for one step of all that were made since.
  void end(int steps) const {
    const std::vector<long> after = now();
    std::string line = "counts";
    for (std::size_t i = 0; i < after.size(); ++i) {
      line += " " + std::string(kCounted[i]) + "=" + std::to_string((after[i] - before_[i] + steps / 2) / steps);
    }
    for (const char* name : {"contexts", "peak_bytes"}) {
      line += " " + std::string(name) + "=" + std::to_string(lockstep::device_counter(name));
    }
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
  }

 private:
  static std::vector<long> now() {
    std::vector<long> values;
    for (const char* name : kCounted) values.push_back(lockstep::device_counter(name));
    return values;
  }
  std::vector<long> before_;
};

torch::Tensor ids(std::int64_t rows) { return torch::randint(0, kWords, {rows, kLength}, torch::kLong); }
torch::Tensor labels(std::int64_t rows) { return torch::randint(0, kClasses, {rows}, torch::kLong); }

// Forward, backward, update: in a loop of one's own, which does not read the loss.
template <typename Forward>
void count_loop(Encoder& net, const c10::Device& device, std::int64_t rows, bool prints, const Forward& forward) {
  lockstep::AdamW optimizer(net->parameters());
  Count count;
  for (int step = 0; step < kStepsBefore + kSteps; ++step) {
    if (step == kStepsBefore) count.begin();
    const at::Tensor x = ids(rows).to(device), y = labels(rows).to(device);
    optimizer.zero_grad();
    torch::nn::functional::cross_entropy(forward(x), y).backward();
    optimizer.step();
  }
  if (prints) count.end(kSteps);
}

void count_ddp() {
  lockstep::init_process_group();
  const c10::Device device = lockstep::use_local_device();
  Encoder net;
  net->to(device);
  lockstep::DistributedDataParallelOptions options;
  options.bucket_cap_mb = 1;
  lockstep::DistributedDataParallel ddp(net, options);
  count_loop(net, device, kRows, lockstep::get_rank() == 0, [&](const at::Tensor& x) { return ddp(x); });
  lockstep::destroy_process_group();
}

class CountCallback : public lockstep::TrainerCallback {
 public:
  void on_step_begin(lockstep::TrainerEvent& event) override {
    if (event.state.global_step == kStepsBefore) count_.begin();
  }
  void on_step_end(lockstep::TrainerEvent& event) override {
    if (event.state.global_step == kStepsBefore + kSteps && event.state.is_world_process_zero) count_.end(kSteps);
  }

 private:
  Count count_;
};

void count_trainer() {
  const lockstep::TemporaryFolder folder;
  lockstep::TrainerOptions options;
  Encoder net;
  options.model = lockstep::adapt(
      net.ptr(),
      [](EncoderImpl& module, const lockstep::Batch& batch) { return module.forward(batch.at("input_ids")); },
      [](const at::Tensor& output, const lockstep::Batch& batch) {
        return lockstep::smoothed_cross_entropy(output, batch.at("labels"), 0);
      });
  const std::int64_t samples = 2 * kRows * (kStepsBefore + kSteps + 1);
  options.train_dataset = std::make_shared<lockstep::TensorDataset>(
      lockstep::Batch{{"input_ids", ids(samples)}, {"labels", labels(samples)}});
  options.print_logs = false;
  options.callbacks.push_back(std::make_shared<CountCallback>());
  options.args.output_dir = folder.path();
  options.args.per_device_train_batch_size = kRows;
  options.args.num_train_epochs = 1;
  options.args.save_strategy = "no";
  options.args.ddp_bucket_cap_mb = 1;
  options.args.disable_tqdm = true;
  lockstep::Trainer(options).train();
  lockstep::destroy_process_group();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string way = argc > 1 ? argv[1] : "";
  torch::manual_seed(1);
  if (way == "ddp") {
    count_ddp();
  } else if (way == "trainer") {
    count_trainer();
  } else {
    const c10::Device device(c10::kCUDA, 0);
    Encoder net;
    net->to(device);
    if (way == "alone") {
      count_loop(net, device, kRows, true, [&](const at::Tensor& x) { return net(x); });
    } else if (way == "dataparallel") {
      lockstep::DataParallel<Encoder> dp(net);
      count_loop(net, device, 2 * kRows, true, [&](const at::Tensor& x) { return dp.forward(x); });
    } else {
      std::fprintf(stderr, "step_counts alone, dataparallel, ddp or trainer\n");
      return 2;
    }
  }
  return 0;
}
