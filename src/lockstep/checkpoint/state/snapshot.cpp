#include "lockstep/checkpoint/state/snapshot.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <functional>

#include "lockstep/checkpoint/files/streaming_copy.h"
#include "lockstep/optim/kernels/large_pages.h"
#include "lockstep/optim/kernels/parallel_over.h"

namespace lockstep {
namespace {

constexpr std::int64_t kSnapshotAlignment = 64;
constexpr std::size_t kSnapshotPieceBytes = 1 << 20;  // bytes that one thread copies at a time

std::int64_t room_of(const at::Tensor& tensor) {
  const auto bytes = static_cast<std::int64_t>(tensor.nbytes());
  return (bytes + kSnapshotAlignment - 1) / kSnapshotAlignment * kSnapshotAlignment;
}

void visit_tensors_in(CheckpointContent& content, const std::function<void(at::Tensor&)>& visit) {
  const auto visit_optimizer = [&](OptimizerContent& optimizer) {
    for (auto& [name, state] : optimizer.state) {
      for (auto& item : state.tensors) visit(item.second);
    }
  };
  for (auto& item : content.weights) visit(item.second);
  for (NamedTensors& weights : content.further_weights) {
    for (auto& item : weights) visit(item.second);
  }
  for (TensorParts& parts : content.weight_parts) {
    for (TensorPart& part : parts) visit(part.tensor);
  }
  visit_optimizer(content.optimizer);
  for (OptimizerContent& optimizer : content.further_optimizers) visit_optimizer(optimizer);
  for (auto& item : content.generators) visit(item.second);
  for (auto& item : content.rank_tensors) visit(item.second);
}

}  // namespace

CheckpointContent SnapshotMemory::copy(const CheckpointContent& content) {
  const at::NoGradGuard no_grad;
  CheckpointContent result = content;  // shares the tensors, which are replaced below
  std::int64_t needed = 0;
  visit_tensors_in(result, [&](at::Tensor& tensor) { needed += room_of(tensor); });
  if (static_cast<std::uint64_t>(needed) > size_bytes()) {
    memory_ = at::Tensor();  // freed first, so that both never exist together
    memory_ = at::empty({needed}, at::kByte);
    advise_large_pages(memory_.data_ptr(), memory_.nbytes());
  }
  used_bytes_ = 0;
  std::vector<Piece> pieces;
  visit_tensors_in(result, [&](at::Tensor& tensor) { tensor = place(tensor, pieces); });
  parallel_over(static_cast<std::int64_t>(pieces.size()), 1, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      streaming_copy(pieces[i].to, pieces[i].from, pieces[i].bytes);
    }
  });
  return result;
}

// Makes the copy's place. Plain memory is added to `pieces`, to be copied later; anything else is copied at once.
at::Tensor SnapshotMemory::place(const at::Tensor& tensor, std::vector<Piece>& pieces) {
  if (tensor.nbytes() == 0) return at::empty(tensor.sizes(), tensor.scalar_type());
  auto* begin = reinterpret_cast<char*>(memory_.data_ptr<std::uint8_t>()) + used_bytes_;
  used_bytes_ += room_of(tensor);
  at::Tensor copy = at::from_blob(begin, tensor.sizes(), at::TensorOptions(tensor.scalar_type()));
  if (!tensor.device().is_cpu() || !tensor.is_contiguous() || tensor.is_conj() || tensor.is_neg()) {
    copy.copy_(tensor.detach());
    return copy;
  }
  const auto* from = static_cast<const char*>(tensor.data_ptr());
  for (std::size_t at = 0; at < tensor.nbytes(); at += kSnapshotPieceBytes) {
    pieces.push_back({begin + at, from + at, std::min(kSnapshotPieceBytes, tensor.nbytes() - at)});
  }
  return copy;
}

}  // namespace lockstep
