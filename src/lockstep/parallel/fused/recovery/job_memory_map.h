#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/comm/shm/memory/control_block.h"
#include "lockstep/comm/shm/memory/memory_segment.h"
#include "lockstep/net/worlds/job_memory.h"

namespace lockstep {

/// The first page of a job's memory. Numbers of updates count those of a fused optimizer since its state came here.
struct MemoryHeader : JobMemoryHeader {
  shm::Word is_whole;  ///< not 0: weights and state are there, after `number` updates and, if decided, one more
  shm::Word number;
  shm::Word shape;    ///< digest of what is laid out where
  shm::Word lanes;    ///< of each rank in the journal
  shm::Word journal;  ///< number of ranks whose notes and lanes count; 0: there are none, so no update is decided
  shm::Word slots;    ///< of gradients that have pages
  shm::Word record;   ///< number of the newest record of the program; 0: there is none
  static constexpr std::size_t kWordsBytes = 1024;
  char words[kWordsBytes];  ///< the shape for people, ended by a zero
};

/// The memory of one host that outlives its ranks (net/worlds/job_memory.h), as one rank has it mapped: a header,
/// records of the program, and what LastingMemory lays out behind them.
class JobMemoryMap {
 public:
  /// @throws Error  if it cannot be mapped
  explicit JobMemoryMap(int file);

  /// That of this rank's job; null, with a warning, if it cannot be used, and if the launcher gave it none.
  static std::shared_ptr<JobMemoryMap> of_rank();

  int file() const { return file_; }
  MemoryHeader& header() const { return *reinterpret_cast<MemoryHeader*>(pages_->data()); }
  static constexpr std::size_t kPlaces = 3;  ///< of records
  /// Where LastingMemory begins.
  static std::size_t end_of_records();
  /// Lets the file have at least `bytes`. Several ranks may do so at once. @throws Error  if it cannot
  void grow(std::size_t bytes) const;

  /// What a program needs to continue, beside weights and the optimizer's state: a text, tensors one after the other,
  /// and a log, which only grows.
  struct Record {
    std::string text;
    std::vector<std::byte> bytes;
    std::string log{};
  };
  /// Replaces the newest record: whoever is killed meanwhile leaves the old one. One rank at a time.
  /// @param number  of the update that comes next
  /// @param record  without its log
  /// @param log  the log of this object's last call, or a longer one that begins with it. Only new bytes are written
  /// @return  false if text and bytes, or the log, are too large
  bool begin_update(std::uint64_t number, const Record& record, const std::string& log);
  /// What else the update that comes next leads to. Before any rank may decide it.
  bool note_outcome(std::uint64_t number, const Record& record);
  /// The newest record, with `number` as above; nothing if there is none.
  std::optional<Record> begun(std::uint64_t& number) const;
  /// The outcome of update `number`; nothing if it is another one's.
  std::optional<Record> outcome(std::uint64_t number) const;

 private:
  struct Head;  // of a place
  bool write(std::size_t place, std::uint64_t number, const Record& record, const std::string& log);
  void reserve(std::size_t offset, std::size_t bytes, std::size_t most, std::size_t& reserved) const;
  std::optional<Record> read(std::size_t place, std::uint64_t& number) const;

  int file_;
  std::uint64_t writer_;  // of this object, and of no other one in the job
  struct Place {
    std::size_t reserved = 0;      // bytes of text and tensors that have pages
    std::size_t log_reserved = 0;  // of the log
    std::uint64_t log_bytes = 0;   // that this object has written there last
  };
  std::array<Place, kPlaces> places_{};
  std::shared_ptr<shm::Mapping> pages_;
};

}  // namespace lockstep
