#include "lockstep/parallel/fused/whole_norm.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "lockstep/optim/kernels/parallel_over.h"

namespace lockstep {
namespace {

constexpr std::int64_t kBlocksOfSumThread = 4;

// Elements [begin, end) of the only source.
at::Tensor elements_of(const GradientSource& source, std::size_t begin, std::size_t end) {
  const at::ScalarType type = source.type == ElementType::Double ? at::kDouble : at::kFloat;
  auto* const first = static_cast<std::byte*>(source.sources[0]) + begin * c10::elementSize(type);
  return at::from_blob(first, {static_cast<std::int64_t>(end - begin)}, at::TensorOptions().dtype(type));
}

double sum_of_row(const at::Tensor& row, std::size_t count) {
  void* memory = row.data_ptr();
  GradientSource source;
  source.sources = &memory;
  source.type = row.scalar_type() == at::kDouble ? ElementType::Double : ElementType::Float;
  return sum_of_squares(source, 0, count);
}

}  // namespace

WholeNorm::WholeNorm(Gradients gradients, const std::vector<std::size_t>& parameters)
    : gradients_(std::move(gradients)) {
  struct Place {
    std::size_t bucket = 0;
    std::size_t offset = 0;
  };
  std::vector<Place> places(gradients_.all.num_parameters());
  for (std::size_t b = 0; b < gradients_.buckets.size(); ++b) {
    const FusedBucket& bucket = gradients_.buckets[b];
    any_double_ = any_double_ || bucket.gradients.scalar_type() == at::kDouble;
    for (std::size_t i = 0; i < bucket.parameters.size(); ++i) {
      places[bucket.parameters[i]] = {b, static_cast<std::size_t>(bucket.offsets[i])};
    }
  }
  for (const std::size_t parameter : parameters) {
    const Place& place = places[parameter];
    const auto numel = static_cast<std::size_t>(gradients_.all.parameter(parameter).numel());
    add_blocks(place.bucket, place.offset, place.offset + numel);
  }
}

void WholeNorm::add_blocks(std::size_t bucket, std::size_t begin, std::size_t end) {
  const auto share = static_cast<std::size_t>(gradients_.plan.regions[bucket].front().end);
  for (; begin < end; begin += kSumBlock) {
    Block block{bucket, begin, std::min(begin + kSumBlock, end), false};
    block.is_cut = block.begin / share != (block.end - 1) / share;
    num_cut_ += block.is_cut ? 1 : 0;
    blocks_.push_back(block);
  }
}

double WholeNorm::norm(Communicator& communicator) {
  std::vector<OwnedGradients> owned;
  for (std::size_t b = 0; b < gradients_.buckets.size(); ++b) owned.push_back(gradients_.owned(b));
  const auto count = static_cast<std::int64_t>(blocks_.size());
  const at::Tensor sums = at::zeros({count}, at::TensorOptions().dtype(at::kDouble));
  auto* const values = sums.data_ptr<double>();
  parallel_over(count, kBlocksOfSumThread, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      const Block& block = blocks_[static_cast<std::size_t>(i)];
      const OwnedGradients& part = owned[block.bucket];
      const bool is_own = part.begin <= block.begin && block.end <= part.end;
      if (is_own) values[i] = sum_of_squares(part.source, block.begin, block.end);
    }
  });
  if (communicator.world_size() > 1) communicator.all_reduce(sums);  // each number is 0 on all ranks but one
  if (num_cut_ > 0) {
    const at::Tensor pieces = cut_blocks(owned);
    communicator.all_reduce(pieces);
    std::int64_t row = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const Block& block = blocks_[static_cast<std::size_t>(i)];
      if (block.is_cut) values[i] = sum_of_row(pieces[row++], block.end - block.begin);
    }
  }
  return std::sqrt(std::accumulate(values, values + count, 0.0));
}

// What this rank has of the blocks that several ranks have parts of, zeros elsewhere.
at::Tensor WholeNorm::cut_blocks(const std::vector<OwnedGradients>& owned) const {
  const auto type = any_double_ ? at::kDouble : at::kFloat;
  const at::Tensor pieces =
      at::zeros({num_cut_, static_cast<std::int64_t>(kSumBlock)}, at::TensorOptions().dtype(type));
  std::int64_t row = 0;
  for (const Block& block : blocks_) {
    if (!block.is_cut) continue;
    const OwnedGradients& part = owned[block.bucket];
    const std::size_t begin = std::max(block.begin, part.begin);
    const std::size_t end = std::min(block.end, part.end);
    const at::Tensor piece = pieces[row++];
    if (begin >= end) continue;
    piece.narrow(0, static_cast<std::int64_t>(begin - block.begin), static_cast<std::int64_t>(end - begin))
        .copy_(elements_of(part.source, begin, end));
  }
  return pieces;
}

}  // namespace lockstep
