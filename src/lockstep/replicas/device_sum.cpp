#include "lockstep/replicas/device_sum.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/cat.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>

namespace lockstep {
namespace {

constexpr std::int64_t kPieceBytes = std::int64_t{16} << 20;

// Gradients of one replica that travel together.
struct Piece {
  std::vector<GradientSum*> sums;
  std::vector<at::Tensor> sources;
  std::int64_t bytes = 0;
};

bool is_strided(const at::Tensor& tensor) { return tensor.layout() == at::kStrided; }

// The sources on the target's device: by one copy, if they are on another one.
std::vector<at::Tensor> brought_over(const Piece& piece) {
  const c10::Device device = piece.sums.front()->device;
  if (piece.sources.front().device() == device) return piece.sources;
  if (piece.sources.size() == 1) return {piece.sources.front().to(device)};
  // Backward made the gradients on another stream than this thread's, perhaps, and their memory is given back before
  // the device has read them.
  const c10::impl::VirtualGuardImpl cuda(c10::kCUDA);
  std::vector<at::Tensor> flat;
  for (const at::Tensor& source : piece.sources) {
    source.record_stream(cuda.getStream(source.device()));
    flat.push_back(source.reshape({-1}));
  }
  const at::Tensor moved = at::cat(flat).to(device);
  std::vector<at::Tensor> values;
  std::int64_t position = 0;
  for (const at::Tensor& source : piece.sources) {
    values.push_back(moved.narrow(0, position, source.numel()).view(source.sizes()));
    position += source.numel();
  }
  return values;
}

void add_piece_on_device(Piece& piece) {
  if (piece.sums.empty()) return;
  const std::vector<at::Tensor> values = brought_over(piece);
  std::vector<at::Tensor> targets;
  std::vector<at::Tensor> added;
  for (std::size_t i = 0; i < values.size(); ++i) {
    GradientSum& sum = *piece.sums[i];
    if (!sum.target.defined()) {
      sum.target = values[i];
      sum.is_shared = false;
    } else if (sum.is_shared || !is_strided(sum.target) || !is_strided(values[i])) {
      sum.target = sum.target + values[i];
      sum.is_shared = false;
    } else {
      targets.push_back(sum.target);
      added.push_back(values[i]);
    }
  }
  if (!targets.empty()) at::_foreach_add_(targets, added);
  piece = Piece();
}

using PlaceAndType = std::tuple<c10::DeviceIndex, c10::DeviceType, at::ScalarType>;

}  // namespace

void add_on_device(std::vector<GradientSum>& sums) {
  const at::NoGradGuard no_grad;
  bool is_last = false;
  for (std::size_t round = 0; !is_last; ++round) {  // the order of each sum is that of its sources
    is_last = true;
    std::map<PlaceAndType, Piece> pieces;
    for (GradientSum& sum : sums) {
      if (round >= sum.sources.size()) continue;
      is_last = false;
      const at::Tensor source = std::exchange(sum.sources[round], at::Tensor());
      Piece alone;
      Piece& piece =
          is_strided(source) ? pieces[{source.device().index(), source.device().type(), source.scalar_type()}] : alone;
      piece.sums.push_back(&sum);
      piece.sources.push_back(source);
      piece.bytes += static_cast<std::int64_t>(source.numel()) * static_cast<std::int64_t>(source.element_size());
      if (&piece == &alone || piece.bytes >= kPieceBytes) add_piece_on_device(piece);
    }
    for (auto& [key, piece] : pieces) add_piece_on_device(piece);
  }
}

}  // namespace lockstep
