#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "lockstep/comm/shm/memory/control_block.h"
#include "lockstep/comm/shm/memory/layout.h"
#include "lockstep/comm/shm/protocols/channel_cell.h"

namespace lockstep::shm {

class CheckedMemory;

/// The program of one rank. It runs many times from its start, so everything that it remembers must be local to it. It
/// must act equally whenever the memory returns equal values.
using RankProgram = std::function<void(CheckedMemory&)>;

struct CheckOptions {
  int world_size = 2;
  std::uint64_t slots = kSlots;           ///< number of slots that the protocol assumes
  std::uint64_t real_slots = kSlots;      ///< number of slots that exist
  std::uint64_t tiny_boxes = kTinyBoxes;  ///< number of boxes that exist
  std::size_t most_states = 3'000'000;    ///< more states are a failure
};

struct CheckResult {
  std::string failure;  ///< of the first failing execution found: what failed, and the steps to it; empty if none fails
  std::size_t states = 0;   ///< number of states that were checked
  std::size_t endings = 0;  ///< states in which every rank had ended
};

/// Runs `programs`, one for each rank, in every order in which their accesses to shared memory can take effect, and
/// reports the first order in which a program throws, or ranks wait for each other forever.
///
/// Stores that are not sequentially consistent take effect later, in order, at any time until the rank's next access
/// that does not allow a delay: the memory model of x86. An access sees its own rank's stores at once. Words that are
/// written under a flag take effect together with the flag that follows them.
CheckResult check_all_interleavings(const std::vector<RankProgram>& programs, const CheckOptions& options = {});

/// A broken expectation of a program.
struct CheckFailure {
  std::string what;
};
/// The group has ended: thrown by `await` and `begin_work`.
struct GroupEnded {};

/// The memory that the protocols use in a check. Other ranks may be interleaved at every access.
class CheckedMemory {
 public:
  class Machine;
  explicit CheckedMemory(Machine& machine, int rank) : machine_(machine), rank_(rank) {}

  int rank() const { return rank_; }
  /// The program runs as another thread of that rank, whose memory cells it uses.
  void act_for(int rank) { rank_ = rank; }
  int world_size() const;
  std::uint64_t slots() const;
  GroupHeader& header();
  RankCell& cell(int rank);
  SlotCell& slot(std::uint64_t sequence, int rank);
  TinyBox& tiny_box(std::uint64_t number, int rank);
  ChannelCell& channel(int from, int to);

  std::uint64_t load(const Word& word);
  std::uint32_t load(const HalfWord& word);
  void store(Word& word, std::uint64_t value);
  void store_in_order(Word& word, std::uint64_t value);
  std::uint64_t fetch_add(Word& word, std::uint64_t value);
  std::uint32_t fetch_add(HalfWord& word, std::uint32_t value);
  bool compare_exchange(Word& word, std::uint64_t& expected, std::uint64_t desired);
  void wait_on(HalfWord& word, std::uint32_t seen);
  void wake_all(HalfWord& word);
  void write_payload(TinyBox& box, const std::byte* data, std::size_t bytes);
  std::uint64_t read_payload(const TinyBox& box);  ///< its first byte

  /// Does not sleep: continues when `ready()`, which reads the memory at one moment. Its result must not become false
  /// again while the rank waits.
  template <class Call, class Ready, class Missing>
  void await(const Call&, Ready&& ready, Missing&&) {
    await_ready(ready);
  }
  template <class Call, class Ready, class Missing>
  void await_without_bell(const Call&, Ready&& ready, Missing&&) {
    await_ready(ready);
  }
  template <class Complete>
  void publish(Word& word, std::uint64_t value, Complete&&) {
    store_in_order(word, value);
  }
  void begin_work();
  void end_work();
  /// Makes begin_work and end_work accesses; otherwise they are not.
  void guard_work() { guards_work_ = true; }

  /// Memory of the program itself, by rank and index: tensors, staging buffers. Plain loads and stores.
  Word& data(int rank, int index);
  /// A decision: any number below `ways`.
  int choose(int ways);
  void expect(bool condition, const std::string& what);

 private:
  void await_ready(const std::function<bool()>& ready);

  Machine& machine_;
  int rank_;
  bool guards_work_ = false;
};

}  // namespace lockstep::shm
