#include "lockstep/parallel/fused/weights/unit_part.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace lockstep {
namespace {

constexpr std::size_t kLineBytes = 64;

UnitPart::Piece piece_of(const UnitPart::Entry& entry, const Region& region, std::size_t at) {
  const std::int64_t begin = std::max<std::int64_t>(0, region.begin - entry.offset);
  const std::int64_t end = std::min(entry.numel, region.end - entry.offset);
  return begin < end ? UnitPart::Piece{begin, end, at} : UnitPart::Piece{0, 0, at};
}

}  // namespace

UnitPart::UnitPart(std::vector<Entry> entries, const UpdatePlan& plan, int rank)
    : entries_(std::move(entries)), rank_(static_cast<std::size_t>(rank)) {
  std::stable_sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
    return a.element_size > b.element_size;
  });  // so all are aligned
  std::size_t longest = 1;
  for (std::size_t owner = 0; owner < plan.regions.front().size(); ++owner) {
    pieces_.emplace_back();
    std::size_t at = 0;
    for (const Entry& entry : entries_) {
      const Piece piece = piece_of(entry, plan.region(entry.bucket, static_cast<int>(owner)), at);
      pieces_.back().push_back(piece);
      at += static_cast<std::size_t>(piece.end - piece.begin) * entry.element_size;
    }
    longest = std::max(longest, at);
  }
  const std::size_t bytes = (longest + kLineBytes - 1) / kLineBytes * kLineBytes;
  message_ = at::zeros({static_cast<std::int64_t>(bytes)}, at::TensorOptions().dtype(at::kByte));
}

std::byte* UnitPart::own_elements(std::size_t entry) const {
  const Piece& piece = pieces_[rank_][entry];
  const std::size_t before = static_cast<std::size_t>(piece.begin) * entries_[entry].element_size;
  const auto first = reinterpret_cast<std::uintptr_t>(message_.data_ptr()) + piece.at - before;
  return reinterpret_cast<std::byte*>(first);
}

void UnitPart::start(Communicator& group) {
  const at::AutoDispatchBelowADInplaceOrView untracked;
  received_ = at::empty({static_cast<std::int64_t>(pieces_.size()) * message_.numel()}, message_.options());
  work_ = group.all_gather_async(received_, message_);
}

void UnitPart::wait() { std::exchange(work_, nullptr)->wait(); }

void UnitPart::unpack(const std::vector<std::byte*>& memory) {
  const auto* from = static_cast<const std::byte*>(received_.data_ptr());
  for (const std::vector<Piece>& of_owner : pieces_) {
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      const Piece& piece = of_owner[i];
      if (piece.begin == piece.end) continue;
      const std::size_t size = entries_[i].element_size;
      std::memcpy(memory[i] + static_cast<std::size_t>(piece.begin) * size, from + piece.at,
                  static_cast<std::size_t>(piece.end - piece.begin) * size);
    }
    from += message_.nbytes();
  }
  received_ = at::Tensor();
}

}  // namespace lockstep
