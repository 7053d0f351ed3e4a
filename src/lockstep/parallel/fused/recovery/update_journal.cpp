#include "lockstep/parallel/fused/recovery/update_journal.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "lockstep/parallel/fused/memory/one_copy.h"

namespace lockstep {
namespace {

constexpr std::size_t kLine = shm::kLineBytes;
constexpr std::size_t kNumbersBytes = 2 * sizeof(double);

std::size_t in_whole_lines(std::size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

}  // namespace

// A rank's block: its note, a line with its word and then its content; a line for each lane; the drafts.
UpdateJournal::UpdateJournal(Communicator& communicator, std::size_t parameters, int lanes, std::size_t draft_bytes)
    : rank_(communicator.rank()),
      world_size_(communicator.world_size()),
      parameters_(parameters),
      lanes_(lanes),
      draft_bytes_(in_whole_lines(draft_bytes)),
      note_bytes_(kLine + in_whole_lines(kNumbersBytes + parameters)) {
  const std::size_t block_bytes = note_bytes_ + static_cast<std::size_t>(lanes) * (kLine + draft_bytes_);
  memory_ = allocate_lasting_copy(communicator, static_cast<std::int64_t>(block_bytes) * world_size_,
                                  at::TensorOptions().dtype(at::kByte));
  new (&word(rank_)) shm::Word(0);
  for (int lane = 0; lane < lanes_; ++lane) new (&lane_word(rank_, lane)) shm::Word(0);
  if (world_size_ > 1) communicator.barrier();
}

std::byte* UpdateJournal::block(int rank) const {
  const std::size_t bytes = memory_.nbytes() / static_cast<std::size_t>(world_size_);
  return static_cast<std::byte*>(memory_.data_ptr()) + static_cast<std::size_t>(rank) * bytes;
}

shm::Word& UpdateJournal::word(int rank) { return *reinterpret_cast<shm::Word*>(block(rank)); }

shm::Word& UpdateJournal::lane_word(int rank, int lane) {
  return *reinterpret_cast<shm::Word*>(block(rank) + note_bytes_ + static_cast<std::size_t>(lane) * kLine);
}

std::byte* UpdateJournal::draft(int rank, int lane) {
  return block(rank) + note_bytes_ + static_cast<std::size_t>(lanes_) * kLine +
         static_cast<std::size_t>(lane) * draft_bytes_;
}

void UpdateJournal::decide(std::uint64_t number, const UpdateNote& note) {
  using Decision = shm::UpdateDecision<UpdateJournal, UpdateJournal>;
  Decision(*this, *this).decide(number, [&] {
    std::byte* const out = block(rank_) + kLine;
    std::memcpy(out, &note.factor, sizeof(double));
    std::memcpy(out + sizeof(double), &note.norm, sizeof(double));
    if (parameters_ > 0) std::memcpy(out + kNumbersBytes, note.contributed.data(), parameters_);
  });
}

std::optional<UpdateNote> UpdateJournal::decision(std::uint64_t number) {
  using Decision = shm::UpdateDecision<UpdateJournal, UpdateJournal>;
  const int by = Decision(*this, *this).decided_by(number);
  if (by < 0) return std::nullopt;
  const std::byte* const in = block(by) + kLine;
  UpdateNote result;
  std::memcpy(&result.factor, in, sizeof(double));
  std::memcpy(&result.norm, in + sizeof(double), sizeof(double));
  result.contributed.resize(parameters_);
  if (parameters_ > 0) std::memcpy(result.contributed.data(), in + kNumbersBytes, parameters_);
  return result;
}

}  // namespace lockstep
