#include "lockstep/parallel/fused/weights/unit_part.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

namespace lockstep {
namespace {

constexpr std::size_t kLineBytes = 64;
constexpr std::size_t kLeastGivenBack = 256 << 10;

// Their content is unspecified afterwards.
void give_pages_back(void* memory, std::size_t bytes) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  const std::uintptr_t first = (begin + page - 1) / page * page;
  const std::uintptr_t last = (begin + bytes) / page * page;
  if (first < last) ::madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

std::size_t in_lines(std::size_t bytes) { return (bytes + kLineBytes - 1) / kLineBytes * kLineBytes; }

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
  for (const Entry& entry : entries_) {
    places_.push_back(bytes_);
    bytes_ += in_lines(static_cast<std::size_t>(entry.numel) * entry.element_size);
  }
  if (plan.gathers_for_host) longest = std::max(longest, (bytes_ + pieces_.size() - 1) / pieces_.size());
  message_ = at::zeros({static_cast<std::int64_t>(in_lines(longest))}, at::TensorOptions().dtype(at::kByte));
  count_passing();
}

// Entries of other types are before the copies. Small ones are not worth a call of the kernel.
void UnitPart::count_passing() {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < entries_.size() && !entries_[i].is_copy; ++i) {
    const Piece& piece = pieces_[rank_][i];
    bytes += static_cast<std::size_t>(piece.end - piece.begin) * entries_[i].element_size;
  }
  if (bytes >= kLeastGivenBack) passing_bytes_ = bytes;
}

std::size_t UnitPart::entry_at(std::size_t byte) const {
  return static_cast<std::size_t>(std::upper_bound(places_.begin(), places_.end(), byte) - places_.begin()) - 1;
}

GatherLayout UnitPart::layout() const {
  GatherLayout layout;
  for (const std::vector<Piece>& of_owner : pieces_) {
    std::vector<GatherLayout::Piece>& pieces = layout.pieces.emplace_back();
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      const std::size_t size = entries_[i].element_size;
      const auto begin = static_cast<std::size_t>(of_owner[i].begin), end = static_cast<std::size_t>(of_owner[i].end);
      if (begin < end) pieces.push_back({of_owner[i].at, places_[i] + begin * size, (end - begin) * size});
    }
  }
  return layout;
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

void UnitPart::start_into(Communicator& group, const at::Tensor& memory) {
  const at::AutoDispatchBelowADInplaceOrView untracked;
  work_ = group.all_gather_async(memory, message_);
}

void UnitPart::wait() {
  std::exchange(work_, nullptr)->wait();
  if (passing_bytes_ > 0) give_pages_back(message_.data_ptr(), passing_bytes_);
}

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
