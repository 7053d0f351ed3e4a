#include "lockstep/parallel/fused/recovery/update_journal.h"

#include <cstring>
#include <utility>

namespace lockstep {
namespace {

constexpr std::size_t kLine = shm::kLineBytes;
constexpr std::size_t kNumbersBytes = 2 * sizeof(double);

std::size_t in_whole_lines(std::size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

}  // namespace

std::size_t UpdateJournal::note_bytes(std::size_t parameters) {
  return kLine + in_whole_lines(kNumbersBytes + parameters);
}
std::size_t UpdateJournal::undo_bytes(std::size_t slots_bytes) { return in_whole_lines(slots_bytes); }

// A rank's block: its note, a line with its word and then its content; a line for each lane; the undo logs.
UpdateJournal::UpdateJournal(std::shared_ptr<LastingMemory> memory, int rank, int world_size)
    : memory_(std::move(memory)),
      rank_(rank),
      world_size_(world_size),
      parameters_(memory_->shape().parameters),
      note_bytes_(note_bytes(parameters_)),
      undo_bytes_((memory_->journal_block_bytes() - note_bytes_) / static_cast<std::size_t>(lanes()) - kLine) {}

void UpdateJournal::begin(Communicator& communicator) {
  bool has_pages = false;
  shm::JournalChange<UpdateJournal, UpdateJournal>(*this, *this).begin([&] {
    if (!std::exchange(has_pages, true)) {
      memory_->reserve_journal(rank_, communicator);  // all ranks have entered it when it returns
    } else if (communicator.world_size() > 1) {
      communicator.barrier();
    }
  });
}

void UpdateJournal::clear() {
  store(word(rank_), 0);
  for (int lane = 0; lane < lanes(); ++lane) store(lane_word(rank_, lane), 0);
}

std::byte* UpdateJournal::block(int rank) const {
  return memory_->journal() + static_cast<std::size_t>(rank) * memory_->journal_block_bytes();
}

shm::Word& UpdateJournal::word(int rank) { return *reinterpret_cast<shm::Word*>(block(rank)); }

shm::Word& UpdateJournal::lane_word(int rank, int lane) {
  return *reinterpret_cast<shm::Word*>(block(rank) + note_bytes_ + static_cast<std::size_t>(lane) * kLine);
}

UndoLog UpdateJournal::undo(int rank, int lane, std::uint64_t number) {
  UndoLog log;
  log.slots = block(rank) + note_bytes_ + static_cast<std::size_t>(lanes()) * kLine +
              static_cast<std::size_t>(lane) * undo_bytes_;
  log.word = &lane_word(rank, lane);
  log.number = number;
  return log;
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
