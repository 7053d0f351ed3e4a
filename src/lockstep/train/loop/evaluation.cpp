#include "lockstep/train/loop/evaluation.h"

#include <torch/types.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <optional>
#include <thread>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/seconds_since.h"
#include "lockstep/data/data_loader.h"
#include "lockstep/data/exact_distributed_sampler.h"
#include "lockstep/data/padding_collator.h"
#include "lockstep/net/long_work.h"
#include "lockstep/replicas/parallel_inference.h"
#include "lockstep/train/batch_device.h"
#include "lockstep/train/filled_tensor.h"

namespace lockstep {
namespace {

// A rank without samples must learn the others' dtype, number of dimensions, and sizes.
constexpr std::int64_t kMostDimensions = 8;

struct LocalSums {
  std::vector<at::Tensor> predictions;
  std::vector<at::Tensor> labels;
  double loss = 0;
  std::int64_t count = 0;
  bool has_labels = false;
  std::int64_t steps = 0;
};

struct BatchResult {
  std::optional<LossSum> loss;
  at::Tensor predictions;
  at::Tensor labels;
};

// The result for an output, computed on the output's device; runs in any thread.
BatchResult result_of(const TrainableModel& model, const at::Tensor& output, const Batch& batch,
                      const EvaluationOptions& options) {
  BatchResult result;
  const auto labels = batch.find("labels");
  const double smoothing = options.label_smoothing_factor;
  if (labels != batch.end()) {
    result.loss = smoothing > 0 ? model.smoothed_loss(output, batch, smoothing) : model.loss(output, batch);
  }
  if (!options.keep_predictions) return result;
  const at::Tensor kept = model.predictions(output);
  if (!kept.defined()) return result;
  result.predictions = kept.detach().to(at::kCPU);
  if (labels != batch.end()) result.labels = labels->second.to(at::kCPU);
  return result;
}

void add_result(const BatchResult& result, LocalSums& sums) {
  ++sums.steps;
  if (result.loss) {
    sums.loss += result.loss->sum.item<double>();
    sums.count += result.loss->count.item<std::int64_t>();
    sums.has_labels = true;
  }
  if (result.predictions.defined()) sums.predictions.push_back(result.predictions);
  if (result.labels.defined()) sums.labels.push_back(result.labels);
}

// Restores training mode even if the model throws.
class EvaluationMode {
 public:
  explicit EvaluationMode(TrainableModel& model) : model_(model), was_training_(model.tensors().is_training()) {
    model_.set_training(false);
  }
  ~EvaluationMode() {
    if (was_training_) model_.set_training(true);
  }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  TrainableModel& model_;
  bool was_training_;
};

// Reports each batch in the caller's thread, for any thread that computed it.
class Told {
 public:
  Told(const EvaluationOptions& options, std::int64_t batches)
      : options_(options), batches_(batches), caller_(std::this_thread::get_id()) {}

  void done() {
    ++done_;
    if (std::this_thread::get_id() == caller_) catch_up();
  }
  void catch_up() {
    while (told_ < done_) {
      ++told_;
      if (options_.on_batch) options_.on_batch(told_, batches_);
    }
  }

 private:
  const EvaluationOptions& options_;
  std::int64_t batches_;
  std::thread::id caller_;
  std::atomic<std::int64_t> done_{0};
  std::int64_t told_ = 0;  // used only by the caller
};

void run_alone(TrainableModel& model, DataLoader& loader, const EvaluationOptions& options, LocalSums& sums) {
  Told told(options, loader.size());
  const c10::Device device = device_of(model);
  for (const Batch& batch : loader) {
    const Batch here = on_device(batch, device);
    add_result(result_of(model, model.forward(here), here, options), sums);
    told.done();
  }
}

// Runs the same batches, added up in the same order, as a single copy would.
void run_on_copies(TrainableModel& model, DataLoader& loader, const EvaluationOptions& options, LocalSums& sums) {
  Told told(options, loader.size());
  DataParallel<std::shared_ptr<torch::nn::Module>> copies(model.module(), options.replicas);
  const auto results = parallel_evaluate(copies, loader, [&](auto& replica, const Batch& batch) {
    const std::vector<at::Tensor> parameters = replica->parameters();
    const Batch here = parameters.empty() ? batch : on_device(batch, parameters.front().device());
    BatchResult result = result_of(model, model.forward_on(*replica, here), here, options);
    told.done();
    return result;
  });
  told.catch_up();
  for (const BatchResult& result : results) add_result(result, sums);
}

LocalSums run_batches(TrainableModel& model, DataLoader& loader, const EvaluationOptions& options) {
  const at::NoGradGuard no_grad;
  const EvaluationMode mode(model);
  LocalSums sums;
  if (options.replicas.size() > 1) {
    run_on_copies(model, loader, options, sums);
  } else {
    run_alone(model, loader, options, sums);
  }
  return sums;
}

void reduce_sums(Communicator& group, LocalSums& sums) {
  at::Tensor totals = torch::tensor({sums.loss, static_cast<double>(sums.count)}, torch::kDouble);
  group.all_reduce(totals);
  sums.loss = totals[0].item<double>();
  sums.count = static_cast<std::int64_t>(totals[1].item<double>());
  at::Tensor seen = torch::tensor({static_cast<std::int64_t>(sums.has_labels), sums.steps}, torch::kLong);
  group.all_reduce(seen, ReduceOp::Max);
  sums.has_labels = seen[0].item<std::int64_t>() != 0;
  sums.steps = seen[1].item<std::int64_t>();
}

}  // namespace

at::Tensor concatenate_padded(const std::vector<at::Tensor>& parts) {
  if (parts.empty()) return {};
  std::vector<std::int64_t> sizes = parts.front().sizes().vec();
  for (const at::Tensor& part : parts) {
    if (part.dim() != static_cast<std::int64_t>(sizes.size())) {
      throw Error("outputs of two batches differ in their number of dimensions", "evaluation",
                  "return outputs with the batch as first dimension");
    }
    for (std::size_t d = 1; d < sizes.size(); ++d) {
      sizes[d] = std::max(sizes[d], part.size(static_cast<std::int64_t>(d)));
    }
  }
  sizes[0] = 0;
  for (const at::Tensor& part : parts) sizes[0] += part.size(0);
  at::Tensor all = filled_tensor(sizes, kIgnoredLabel, parts.front().options());
  std::int64_t begin = 0;
  for (const at::Tensor& part : parts) {
    put_into(all.narrow(0, begin, part.size(0)), part);
    begin += part.size(0);
  }
  return all;
}

at::Tensor gather_in_order(Communicator& group, const at::Tensor& local, std::int64_t samples) {
  at::Tensor shape = torch::zeros({kMostDimensions + 2}, torch::kLong);
  if (local.defined()) {
    if (local.dim() > kMostDimensions) {
      throw Error("outputs of " + std::to_string(local.dim()) + " dimensions", "evaluation",
                  "return outputs of at most 8 dimensions");
    }
    shape[0] = static_cast<std::int64_t>(local.scalar_type());
    shape[1] = local.dim();
    for (std::int64_t d = 1; d < local.dim(); ++d) shape[d + 1] = local.size(d);
  }
  group.all_reduce(shape, ReduceOp::Max);
  const std::int64_t dims = shape[1].item<std::int64_t>();
  if (dims == 0) return {};
  const auto dtype = static_cast<at::ScalarType>(shape[0].item<std::int64_t>());
  const std::int64_t share = (samples + group.world_size() - 1) / group.world_size();
  std::vector<std::int64_t> sizes{share};
  for (std::int64_t d = 1; d < dims; ++d) sizes.push_back(shape[d + 1].item<std::int64_t>());
  const at::Tensor mine = filled_tensor(sizes, kIgnoredLabel, at::TensorOptions(dtype));
  if (local.defined()) put_into(mine, local);
  sizes[0] = share * group.world_size();
  at::Tensor all = at::empty(sizes, dtype);
  group.all_gather(all, mine);
  sizes[0] = group.world_size();
  sizes.insert(sizes.begin() + 1, share);
  return all.view(sizes).transpose(0, 1).flatten(0, 1).slice(0, 0, samples).contiguous();
}

EvaluationResult evaluate_dataset(TrainableModel& model, const std::shared_ptr<const Dataset>& dataset,
                                  const EvaluationOptions& options, const std::shared_ptr<Communicator>& group) {
  const auto start = std::chrono::steady_clock::now();
  ExactDistributedSamplerOptions share;
  share.num_replicas = group ? group->world_size() : 1;
  share.rank = group ? group->rank() : 0;
  DataLoaderOptions reading;
  reading.batch_size = options.batch_size;
  reading.collate = options.collate;
  reading.num_workers = options.num_workers;
  DataLoader loader(dataset, reading, std::make_shared<ExactDistributedSampler>(dataset->size(), share));

  LocalSums sums;
  {
    std::optional<LongWork> work;  // the other ranks may finish long before
    if (group) work.emplace(group->membership(), "evaluating", WorkLog::Quiet);
    sums = run_batches(model, loader, options);
  }
  EvaluationResult result;
  result.samples = dataset->size();
  result.predictions = concatenate_padded(sums.predictions);
  result.label_ids = concatenate_padded(sums.labels);
  if (group && group->world_size() > 1) {
    reduce_sums(*group, sums);
    result.predictions = gather_in_order(*group, result.predictions, result.samples);
    result.label_ids = gather_in_order(*group, result.label_ids, result.samples);
  }
  result.has_labels = sums.has_labels;
  result.loss =
      sums.count == 0 ? std::numeric_limits<double>::quiet_NaN() : sums.loss / static_cast<double>(sums.count);
  result.steps = sums.steps;
  result.runtime_s = seconds_since(start);
  return result;
}

}  // namespace lockstep
