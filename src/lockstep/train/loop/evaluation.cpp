#include "lockstep/train/loop/evaluation.h"

#include <torch/types.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <optional>
#include <thread>
#include <vector>

#include "lockstep/base/seconds_since.h"
#include "lockstep/data/data_loader.h"
#include "lockstep/data/exact_distributed_sampler.h"
#include "lockstep/net/long_work.h"
#include "lockstep/parallel/slices/one_thread.h"
#include "lockstep/replicas/parallel_inference.h"
#include "lockstep/train/batch_device.h"
#include "lockstep/train/slices/gathered_outputs.h"
#include "lockstep/train/slices/update_totals.h"

namespace lockstep {
namespace {

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
class BatchReport {
 public:
  BatchReport(const EvaluationOptions& options, std::int64_t batches)
      : options_(options), batches_(batches), caller_(std::this_thread::get_id()) {}

  void done() {
    ++done_;
    if (std::this_thread::get_id() == caller_) catch_up();
  }
  void catch_up() {
    while (reported_ < done_) {
      ++reported_;
      if (options_.on_batch) options_.on_batch(reported_, batches_);
    }
  }

 private:
  const EvaluationOptions& options_;
  std::int64_t batches_;
  std::thread::id caller_;
  std::atomic<std::int64_t> done_{0};
  std::int64_t reported_ = 0;  // used only by the caller
};

void run_alone(TrainableModel& model, DataLoader& loader, const EvaluationOptions& options, BatchReport& report,
               LocalSums& sums) {
  const c10::Device device = device_of(model);
  for (const Batch& batch : loader) {
    const Batch here = on_device(batch, device);
    const at::Tensor output = options.shards != nullptr ? options.shards->evaluate(here) : model.forward(here);
    add_result(result_of(model, output, here, options), sums);
    report.done();
  }
}

// The other ranks gather weights from this one as long as they have batches.
void keep_step(TrainableModel& model, const Dataset& dataset, const EvaluationOptions& options, std::int64_t batches,
               const SampleShares& shares) {
  const std::int64_t samples = (dataset.size() + shares.all - 1) / shares.all;  // of the rank that has most
  const std::int64_t most = (samples + options.batch_size - 1) / options.batch_size;
  if (batches >= most) return;
  const at::NoGradGuard no_grad;
  const EvaluationMode mode(model);
  const Batch batch = options.collate ? options.collate({dataset.get(0)}) : dataset.get_batch({0});
  for (; batches < most; ++batches) options.shards->evaluate(on_device(batch, device_of(model)));
}

// Runs the same batches, added up in the same order, as a single copy would.
void run_on_copies(TrainableModel& model, DataLoader& loader, const EvaluationOptions& options, BatchReport& report,
                   LocalSums& sums) {
  DataParallel<std::shared_ptr<torch::nn::Module>> copies(model.module(), options.replicas);
  const auto results = parallel_evaluate(copies, loader, [&](auto& replica, const Batch& batch) {
    const std::vector<at::Tensor> parameters = replica->parameters();
    const Batch here = parameters.empty() ? batch : on_device(batch, parameters.front().device());
    BatchResult result = result_of(model, model.forward_on(*replica, here), here, options);
    report.done();
    return result;
  });
  report.catch_up();
  for (const BatchResult& result : results) add_result(result, sums);
}

// @return  the sums of each loader
std::vector<LocalSums> run_batches(TrainableModel& model, std::vector<DataLoader>& loaders,
                                   const EvaluationOptions& options) {
  const at::NoGradGuard no_grad;
  const EvaluationMode mode(model);
  std::int64_t batches = 0;
  for (const DataLoader& loader : loaders) batches += loader.size();
  BatchReport report(options, batches);
  std::vector<LocalSums> sums(loaders.size());
  for (std::size_t i = 0; i < loaders.size(); ++i) {
    if (options.replicas.size() > 1) {
      run_on_copies(model, loaders[i], options, report, sums[i]);
    } else {
      run_alone(model, loaders[i], options, report, sums[i]);
    }
  }
  return sums;
}

// The sums of all shares, in the order of their tree if they are slices. @param group  null: one process
LocalSums add_sums(const std::vector<LocalSums>& own, const EvaluationOptions& options, Communicator* group) {
  PartOfUpdate part;
  std::int64_t has_labels = 0, steps = 0;
  for (const LocalSums& each : own) {
    part.slices.push_back({each.loss, each.count, 0, 0});
    has_labels = std::max(has_labels, static_cast<std::int64_t>(each.has_labels));
    steps = std::max(steps, each.steps);
  }
  part.totals = part.slices.front();
  const UpdateTotals totals = options.virtual_shards > 0
                                  ? add_over_slices(part, SliceTree(options.virtual_shards), group).totals
                                  : add_over_ranks(part, group).totals;
  at::Tensor seen = torch::tensor({has_labels, steps}, torch::kLong);
  if (group != nullptr && group->world_size() > 1) group->all_reduce(seen, ReduceOp::Max);
  LocalSums sums;
  sums.loss = totals.loss;
  sums.count = totals.count;
  sums.has_labels = seen[0].item<std::int64_t>() != 0;
  sums.steps = seen[1].item<std::int64_t>();
  return sums;
}

std::vector<DataLoader> loaders_of_shares(const std::shared_ptr<const Dataset>& dataset,
                                          const EvaluationOptions& options, const SampleShares& shares) {
  const std::int64_t count = shares.own.size();
  DataLoaderOptions reading;
  reading.batch_size = options.batch_size;
  reading.collate = options.collate;
  reading.num_workers = static_cast<int>((options.num_workers + count - 1) / count);
  std::vector<DataLoader> loaders;
  for (std::int64_t index = shares.own.begin; index < shares.own.end; ++index) {
    ExactDistributedSamplerOptions share;
    share.num_replicas = shares.all;
    share.rank = index;
    loaders.emplace_back(dataset, reading, std::make_shared<ExactDistributedSampler>(dataset->size(), share));
  }
  return loaders;
}

}  // namespace

EvaluationResult evaluate_dataset(TrainableModel& model, const std::shared_ptr<const Dataset>& dataset,
                                  const EvaluationOptions& options, const std::shared_ptr<Communicator>& group) {
  const auto start = std::chrono::steady_clock::now();
  const SampleShares shares = shares_of_rank(options.virtual_shards, group.get());
  std::vector<DataLoader> loaders = loaders_of_shares(dataset, options, shares);
  std::vector<LocalSums> of_shares;
  {
    std::optional<OneThread> one_thread;
    if (options.virtual_shards > 0) one_thread.emplace();
    std::optional<LongWork> work;  // the other ranks may finish long before
    if (group && options.shards == nullptr) work.emplace(group->membership(), "evaluating", WorkLog::Quiet);
    of_shares = run_batches(model, loaders, options);
    if (options.shards != nullptr) keep_step(model, *dataset, options, of_shares.front().steps, shares);
  }
  EvaluationResult result;
  result.samples = dataset->size();
  std::vector<at::Tensor> predictions, labels;
  for (const LocalSums& sums : of_shares) {
    predictions.push_back(concatenate_padded(sums.predictions));
    labels.push_back(concatenate_padded(sums.labels));
  }
  const LocalSums sums = add_sums(of_shares, options, group.get());
  result.predictions = gather_in_order(predictions, shares, result.samples, group.get());
  result.label_ids = gather_in_order(labels, shares, result.samples, group.get());
  result.has_labels = sums.has_labels;
  result.loss =
      sums.count == 0 ? std::numeric_limits<double>::quiet_NaN() : sums.loss / static_cast<double>(sums.count);
  result.steps = sums.steps;
  result.runtime_s = seconds_since(start);
  return result;
}

}  // namespace lockstep
