#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tests/comm/shm/interleavings.h"

namespace lockstep::shm {

/// Runs one rank's program up to its next access, and performs that access.
class CheckedMemory::Machine {
 public:
  /// Thrown when a replay has reached its end; it leaves the program there.
  struct Pause {};

  struct Buffered {
    std::uint32_t word;
    std::uint64_t value;
    friend bool operator==(const Buffered& a, const Buffered& b) { return a.word == b.word && a.value == b.value; }
  };

  /// A rank's position: the results of its accesses so far.
  struct RankHistory {
    std::vector<std::uint64_t> told;
    std::vector<Buffered> buffer;  // stores that have not taken effect, oldest first
    std::uint32_t sleeps_on = 0;   // 1 + word, or 0
    bool ended = false;
  };

  struct State {
    std::vector<std::uint64_t> words;
    std::vector<RankHistory> ranks;
  };

  Machine(const std::vector<RankProgram>& programs, const CheckOptions& options)
      : programs_(programs),
        options_(options),
        cells_(new RankCell[kMostRanks]()),
        slots_(new SlotCell[kMostRanks * kSlots]()),
        tiny_(new TinyBox[kMostRanks * 8]()),
        channels_(new ChannelCell[kMostRanks * kMostRanks]()),
        data_(new Word[kMostRanks * kDataPerRank]()) {
    for (std::size_t i = 0; i < kMostRanks * kSlots; ++i) {
      hide(slots_[i].announcement);
      words_under_flags_.insert({&slots_[i].segment, &slots_[i].offset});
    }
    for (std::size_t i = 0; i < kMostRanks * 8; ++i) hide(tiny_[i].announcement);
    for (std::size_t i = 0; i < kMostRanks; ++i) words_under_flags_.insert(&cells_[i].entered);
  }

  const CheckOptions& options() const { return options_; }
  GroupHeader& header() { return header_; }
  RankCell& cell(int rank) { return cells_[static_cast<std::size_t>(rank)]; }
  SlotCell& slot(std::uint64_t sequence, int rank) {
    return slots_[static_cast<std::size_t>(sequence % options_.real_slots) * kMostRanks +
                  static_cast<std::size_t>(rank)];
  }
  TinyBox& tiny_box(std::uint64_t number, int rank) {
    return tiny_[static_cast<std::size_t>(number % options_.tiny_boxes) * kMostRanks + static_cast<std::size_t>(rank)];
  }
  ChannelCell& channel(int from, int to) {
    return channels_[static_cast<std::size_t>(from) * kMostRanks + static_cast<std::size_t>(to)];
  }
  Word& data(int rank, int index) { return data_[static_cast<std::size_t>(rank * kDataPerRank + index)]; }

  State initial() const {
    State state;
    state.ranks.resize(programs_.size());
    return state;
  }

  // The states after a step of `rank`: one, one for each decision, or none if the rank must wait.
  std::vector<State> step(const State& from, int rank) {
    std::vector<State> results;
    if (from.ranks[static_cast<std::size_t>(rank)].ended) return results;
    int ways = 1;
    for (way_ = 0; way_ < ways; ++way_) {
      begin(from, rank);
      run();
      ways = std::max(ways, ways_);
      if (moved_) results.push_back(std::move(state_));
      if (failure_) break;
    }
    return results;
  }
  // The state after the oldest stores of `rank`, up to the next flag, take effect.
  std::optional<State> flush(const State& from, int rank) {
    if (from.ranks[static_cast<std::size_t>(rank)].buffer.empty()) return std::nullopt;
    begin(from, rank);
    RankHistory& me = history();
    std::size_t taken = 0;
    while (taken < me.buffer.size()) {
      const Buffered store = me.buffer[taken++];
      put(store.word, store.value);
      if (!is_under_flag_[store.word]) break;
    }
    me.buffer.erase(me.buffer.begin(), me.buffer.begin() + static_cast<std::ptrdiff_t>(taken));
    last_access_ = "its stores take effect";
    return std::move(state_);
  }
  const std::optional<std::string>& failure() const { return failure_; }
  const std::string& last_access() const { return last_access_; }

  // The running program calls the functions below.

  // One access: answered from the history as long as it lasts, then one new access, then no more.
  std::uint64_t access(const char* name, const void* address, bool drains,
                       const std::function<std::uint64_t()>& effect) {
    RankHistory& me = history();
    if (peeking_) return effect();
    if (at_ < me.told.size()) return me.told[at_++];
    if (moved_) throw Pause();
    if (drains) drain(me);
    const std::uint64_t told = effect();
    moved_ = true;
    remember(told);
    note(name, address, told);
    return told;
  }
  // No other rank sees a store into the rank's own buffer, so other ranks need not be interleaved here.
  void buffer(const void* address, std::uint64_t value) {
    if (at_ < history().told.size()) {
      ++at_;
      return;
    }
    history().buffer.push_back({word_of(address), value});
    remember(value);
  }
  std::uint64_t value_at(const void* address) {
    const std::uint32_t word = word_of(address);
    RankHistory& me = history();
    for (auto it = me.buffer.rbegin(); it != me.buffer.rend(); ++it) {
      if (it->word == word) return it->value;
    }
    return word < state_.words.size() ? state_.words[word] : 0;
  }
  void put_at(const void* address, std::uint64_t value) { put(word_of(address), value); }
  bool is_second_of_several(const void* address) const { return followers_.count(address) != 0; }
  // Reads the later ones of several words that are written under one flag.
  std::uint64_t load_eagerly(const void* address) {
    if (at_ < history().told.size()) return history().told[at_++];
    const std::uint64_t value = value_at(address);
    if (!peeking_) remember(value);
    return value;
  }

  void await_ready(const std::function<bool()>& ready) {
    constexpr std::uint64_t kOver = 1;
    constexpr std::uint64_t kEnded = 2;
    const std::uint64_t told = access("await", nullptr, false, [&]() -> std::uint64_t {
      peeking_ = true;
      const bool over = ready();
      const bool ended = value_at(&header_.broken) != 0;
      peeking_ = false;
      if (!over && !ended) throw Pause();
      return over ? kOver : kEnded;
    });
    if (told == kEnded) throw GroupEnded();
  }
  // Two steps: falling asleep, and waking up.
  void wait_on(const void* address, std::uint32_t seen) {
    access("sleep on", address, true, [&]() -> std::uint64_t {
      if (value_at(address) == seen) history().sleeps_on = word_of(address) + 1;
      return 0;
    });
    access("awake", address, false, [&]() -> std::uint64_t {
      if (history().sleeps_on != 0) throw Pause();
      return 0;
    });
  }
  void wake_all(const void* address) {
    access("wake", address, true, [&]() -> std::uint64_t {
      for (RankHistory& other : state_.ranks) {
        if (other.sleeps_on == word_of(address) + 1) other.sleeps_on = 0;
      }
      return 0;
    });
  }
  int choose(int ways) {
    return static_cast<int>(access("choose", nullptr, false, [&]() -> std::uint64_t {
      ways_ = ways;
      return static_cast<std::uint64_t>(way_);
    }));
  }

 private:
  static constexpr std::size_t kMostRanks = 4;
  static constexpr int kDataPerRank = 64;

  void hide(const std::array<Word, 3>& announcement) {
    for (const Word& word : announcement) words_under_flags_.insert(&word);
    followers_.insert({&announcement[1], &announcement[2]});
  }

  RankHistory& history() { return state_.ranks[static_cast<std::size_t>(rank_)]; }

  void begin(const State& from, int rank) {
    state_ = from;
    rank_ = rank;
    ways_ = 1;
    at_ = 0;
    moved_ = false;
    peeking_ = false;
    failure_.reset();
  }

  void run() {
    CheckedMemory memory(*this, rank_);
    try {
      programs_[static_cast<std::size_t>(rank_)](memory);
      history().ended = true;
      moved_ = true;
    } catch (const Pause&) {
    } catch (const GroupEnded&) {
      history().ended = true;
    } catch (const CheckFailure& failure) {
      failure_ = failure.what;
    }
  }

  void remember(std::uint64_t told) {
    history().told.push_back(told);
    ++at_;
  }
  void drain(RankHistory& me) {
    for (const Buffered& store : me.buffer) put(store.word, store.value);
    me.buffer.clear();
  }
  void put(std::uint32_t word, std::uint64_t value) {
    if (word >= state_.words.size()) state_.words.resize(word + 1, 0);
    state_.words[word] = value;
  }
  // Words are numbered in the order of their first use; an address has one number in all states.
  std::uint32_t word_of(const void* address) {
    const auto [it, fresh] = numbers_.emplace(address, static_cast<std::uint32_t>(is_under_flag_.size()));
    if (fresh) is_under_flag_.push_back(words_under_flags_.count(address) != 0);
    return it->second;
  }
  void note(const char* name, const void* address, std::uint64_t told) {
    std::ostringstream text;
    text << name;
    if (address != nullptr) text << " word " << word_of(address);
    text << " (" << told << ")";
    last_access_ = text.str();
  }

  const std::vector<RankProgram>& programs_;
  const CheckOptions options_;
  GroupHeader header_{};
  std::unique_ptr<RankCell[]> cells_;
  std::unique_ptr<SlotCell[]> slots_;
  std::unique_ptr<TinyBox[]> tiny_;
  std::unique_ptr<ChannelCell[]> channels_;
  std::unique_ptr<Word[]> data_;
  std::unordered_set<const void*> words_under_flags_;
  std::unordered_set<const void*> followers_;
  std::unordered_map<const void*, std::uint32_t> numbers_;
  std::vector<bool> is_under_flag_;  // by number

  State state_;
  int rank_ = 0;
  int way_ = 0;
  int ways_ = 1;
  std::size_t at_ = 0;  // position in the history during this replay
  bool moved_ = false;  // the one new access has been made
  bool peeking_ = false;
  std::optional<std::string> failure_;
  std::string last_access_;
};

}  // namespace lockstep::shm
