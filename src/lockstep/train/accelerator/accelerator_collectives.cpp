// Accelerator: operations on tensors over all ranks.
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>
#include <torch/utils.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/text/count_of.h"
#include "lockstep/train/accelerator.h"
#include "lockstep/train/filled_tensor.h"

namespace lockstep {
namespace {

ReduceOp operation_of(const std::string& reduction) {
  if (reduction == "sum") return ReduceOp::Sum;
  if (reduction == "mean") return ReduceOp::Avg;
  if (reduction == "max") return ReduceOp::Max;
  if (reduction == "min") return ReduceOp::Min;
  throw Error(fmt::format("reduction is '{}'", reduction), "Accelerator::reduce", "use sum, mean, max, min or none");
}

// What each rank says of its tensor, before metrics are gathered.
enum MetricColumn : std::int64_t {
  kRows,            // along dimension 0
  kSamplesBefore,   // this rank's samples before the batch; -1: not dealt one by one
  kSamplesInAll,    // behind which samples are repeated; -1: nowhere
  kUnrepeated,      // rows at the begin that are not repeated
  kSamplesOfBatch,  // -1: unknown
  kRepeatedBefore,  // samples that were repeated in the loop that ended, if the tensor is of all of them
  kMetricColumns
};

at::Tensor own_metric_header(std::int64_t rows, const ActiveLoaders& loaders) {
  // A rank that has run out of batches contributes nothing, whatever loop is around.
  const LoaderPosition* mine = rows == 0 ? nullptr : loaders.innermost();
  std::vector<std::int64_t> header(kMetricColumns, -1);
  header[kRows] = header[kUnrepeated] = rows;
  header[kRepeatedBefore] = 0;
  if (mine != nullptr) {
    header[kSamplesBefore] = mine->samples_before;
    if (mine->repeats_samples) header[kSamplesInAll] = mine->dataset_size;
    if (mine->unrepeated >= 0) header[kUnrepeated] = mine->unrepeated;
    header[kSamplesOfBatch] = mine->samples;
  } else if (loaders.reading.empty() && loaders.ended.samples > 0 && rows >= loaders.ended.samples) {
    header[kRepeatedBefore] = loaders.ended.repeated;
  }
  return torch::tensor(header, at::kLong);
}

class MetricHeaders {
 public:
  explicit MetricHeaders(const at::Tensor& of_all) : headers_(of_all.view({-1, kMetricColumns})) {}

  std::int64_t of(std::int64_t rank, MetricColumn column) const { return headers_[rank][column].item<std::int64_t>(); }
  std::int64_t sum(MetricColumn column) const { return headers_.select(1, column).sum().item<std::int64_t>(); }

  // All ranks find the same, so none waits for another.
  void require_samples(const Membership& membership) const {
    for (std::int64_t rank = 0; rank < headers_.size(0); ++rank) {
      const std::int64_t rows = of(rank, kRows), samples = of(rank, kSamplesOfBatch);
      if (samples < 0 || rows == samples) continue;
      throw Error(
          fmt::format("gather_for_metrics was given {} along dimension 0 on rank {}, and the batch that a "
                      "prepared loader returned last has {}: which belong to repeated samples is unknown",
                      count_of(rows, "element"), rank, count_of(samples, "sample")),
          membership.where(),
          fmt::format(
              "reshape it so that dimension 0 is the batch, as by view({{{}, -1}}); if it is not of this batch, "
              "as after a loop inside another one, use gather, and cut the result yourself",
              samples));
    }
  }

  // The rows to keep of what was gathered, in the dataset's order.
  std::vector<std::int64_t> kept() const {
    const std::int64_t ranks = headers_.size(0), largest = max(kRows);
    const std::int64_t samples_before = max(kSamplesBefore), samples = max(kSamplesInAll);
    const bool is_of_loader = samples_before >= 0;
    std::vector<std::int64_t> kept;
    for (std::int64_t place = 0; place < largest * ranks; ++place) {
      // Samples were dealt to the ranks one by one. Tensors that belong to no loader stay in the order of ranks.
      const std::int64_t rank = is_of_loader ? place % ranks : place / largest;
      const std::int64_t sample = is_of_loader ? place / ranks : place % largest;
      const bool is_there = sample < std::min(of(rank, kRows), of(rank, kUnrepeated));
      const bool is_repeated = samples >= 0 && samples_before * ranks + place >= samples;
      if (is_there && !is_repeated) kept.push_back(rank * largest + sample);
    }
    return kept;
  }

 private:
  std::int64_t max(MetricColumn column) const { return headers_.select(1, column).max().item<std::int64_t>(); }

  at::Tensor headers_;
};

}  // namespace

at::Tensor Accelerator::gather(const at::Tensor& tensor) {
  const at::Tensor part = (tensor.dim() == 0 ? tensor.reshape({1}) : tensor).detach().contiguous();
  std::vector<std::int64_t> sizes = part.sizes().vec();
  sizes[0] *= num_processes();
  at::Tensor all = at::empty(sizes, part.options());
  process_group().all_gather(all, part);
  return all;
}

at::Tensor Accelerator::gather_for_metrics(const at::Tensor& tensor) {
  if (tensor.dim() == 0) {
    throw Error("gather_for_metrics was given a scalar, which belongs to no sample", "Accelerator",
                "give it a tensor with an element for each sample of the batch, or use gather");
  }
  const MetricHeaders headers(gather(own_metric_header(tensor.size(0), *loaders_)));
  headers.require_samples(process_group().membership());
  if (is_main_process() && headers.sum(kRepeatedBefore) > 0 && !std::exchange(loaders_->has_warned, true)) {
    log_warning(
        "gather_for_metrics was called after its loop, and does not leave out what was repeated to fill the last "
        "batches of the ranks ({}); call it in the loop, for each batch",
        count_of(headers.sum(kRepeatedBefore), "sample"));
  }
  const at::Tensor all = gather(pad_across_processes(tensor));
  return all.index_select(0, torch::tensor(headers.kept(), at::kLong).to(all.device()));
}

at::Tensor Accelerator::reduce(const at::Tensor& tensor, const std::string& reduction, double scale) {
  at::Tensor result = tensor.detach().clone();
  if (reduction != "none") process_group().all_reduce(result, operation_of(reduction));
  return scale == 1 ? result : result * scale;
}

at::Tensor Accelerator::pad_across_processes(const at::Tensor& tensor, std::int64_t dim, double pad_index,
                                             bool pad_first) {
  if (dim < 0) dim += tensor.dim();
  if (dim < 0 || dim >= tensor.dim()) return tensor;  // as in Accelerate, a scalar among tensors is returned unchanged
  at::Tensor largest = at::full({1}, tensor.size(dim), at::kLong);
  process_group().all_reduce(largest, ReduceOp::Max);
  const std::int64_t missing = largest.item<std::int64_t>() - tensor.size(dim);
  if (missing == 0) return tensor;
  std::vector<std::int64_t> sizes = tensor.sizes().vec();
  sizes[static_cast<std::size_t>(dim)] += missing;
  const at::Tensor padded = filled_tensor(sizes, pad_index, tensor.options());
  padded.narrow(dim, pad_first ? missing : 0, tensor.size(dim)).copy_(tensor);
  return padded;
}

}  // namespace lockstep
