// The memory that the protocols use in a check.
#include "lockstep/comm/shm/protocols/work_protocol.h"
#include "tests/comm/shm/checked_machine.h"
#include "tests/comm/shm/interleavings.h"

namespace lockstep::shm {

int CheckedMemory::world_size() const { return machine_.options().world_size; }
std::uint64_t CheckedMemory::slots() const { return machine_.options().slots; }
GroupHeader& CheckedMemory::header() { return machine_.header(); }
RankCell& CheckedMemory::cell(int rank) { return machine_.cell(rank); }
SlotCell& CheckedMemory::slot(std::uint64_t sequence, int rank) { return machine_.slot(sequence, rank); }
TinyBox& CheckedMemory::tiny_box(std::uint64_t number, int rank) { return machine_.tiny_box(number, rank); }
ChannelCell& CheckedMemory::channel(int from, int to) { return machine_.channel(from, to); }
Word& CheckedMemory::data(int rank, int index) { return machine_.data(rank, index); }

std::uint64_t CheckedMemory::load(const Word& word) {
  if (machine_.is_second_of_several(&word)) return machine_.load_eagerly(&word);
  return machine_.access("load", &word, false, [&] { return machine_.value_at(&word); });
}
std::uint32_t CheckedMemory::load(const HalfWord& word) {
  return static_cast<std::uint32_t>(machine_.access("load", &word, false, [&] { return machine_.value_at(&word); }));
}
void CheckedMemory::store(Word& word, std::uint64_t value) { machine_.buffer(&word, value); }
void CheckedMemory::store_in_order(Word& word, std::uint64_t value) {
  machine_.access("store", &word, true, [&] {
    machine_.put_at(&word, value);
    return value;
  });
}
std::uint64_t CheckedMemory::fetch_add(Word& word, std::uint64_t value) {
  return machine_.access("add to", &word, true, [&] {
    const std::uint64_t before = machine_.value_at(&word);
    machine_.put_at(&word, before + value);
    return before;
  });
}
std::uint32_t CheckedMemory::fetch_add(HalfWord& word, std::uint32_t value) {
  return static_cast<std::uint32_t>(machine_.access("add to", &word, true, [&] {
    const std::uint64_t before = machine_.value_at(&word);
    machine_.put_at(&word, before + value);
    return before;
  }));
}
bool CheckedMemory::compare_exchange(Word& word, std::uint64_t& expected, std::uint64_t desired) {
  const std::uint64_t wanted = expected;
  expected = machine_.access("exchange", &word, true, [&] {
    const std::uint64_t before = machine_.value_at(&word);
    if (before == wanted) machine_.put_at(&word, desired);
    return before;
  });
  return expected == wanted;
}
void CheckedMemory::wait_on(HalfWord& word, std::uint32_t seen) { machine_.wait_on(&word, seen); }
void CheckedMemory::wake_all(HalfWord& word) { machine_.wake_all(&word); }
// One word represents a whole payload.
void CheckedMemory::write_payload(TinyBox& box, const std::byte* data, std::size_t) {
  machine_.buffer(box.payload.data(), static_cast<std::uint64_t>(*data));
}
std::uint64_t CheckedMemory::read_payload(const TinyBox& box) {
  return machine_.access("load", box.payload.data(), false, [&] { return machine_.value_at(box.payload.data()); });
}
void CheckedMemory::await_ready(const std::function<bool()>& ready) { machine_.await_ready(ready); }
void CheckedMemory::begin_work() {
  if (guards_work_ && !WorkProtocol<CheckedMemory>(*this).begin()) throw GroupEnded();
}
void CheckedMemory::end_work() {
  if (guards_work_) WorkProtocol<CheckedMemory>(*this).end();
}
int CheckedMemory::choose(int ways) { return machine_.choose(ways); }
void CheckedMemory::expect(bool condition, const std::string& what) {
  if (!condition) throw CheckFailure{what};
}

}  // namespace lockstep::shm
