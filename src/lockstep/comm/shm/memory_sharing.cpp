#include "lockstep/comm/shm/memory_sharing.h"

#include <fmt/format.h>
#include <unistd.h>

#include <map>
#include <mutex>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/unique_fd.h"
#include "lockstep/comm/shm/free_memory.h"

namespace lockstep::shm {
namespace {

class BetweenProcesses : public MemorySharing {
 public:
  Offer offer(std::size_t bytes) override {
    auto fd = std::make_shared<UniqueFd>(create_segment(bytes));
    Offer made{Mapping::of_file(fd->get(), bytes), address_of(fd->get()), fd};
    return made;
  }
  std::shared_ptr<Mapping> accept(const SegmentAddress& address) override {
    const UniqueFd fd = open_segment(address);
    return Mapping::of_file(fd.get(), address.bytes);
  }
  void reserve(const SegmentAddress& address, std::size_t offset, std::size_t bytes) override {
    const UniqueFd fd = open_segment(address);
    reserve_pages(fd.get(), offset, bytes);
  }
  bool one_address_space() const override { return false; }
};

// What ranks of this process offer each other, by a number that stands for the inode.
struct Offers {
  std::mutex mutex;
  std::uint64_t next = 1;
  std::map<std::uint64_t, std::weak_ptr<Mapping>> standing;
};

Offers& offers() {
  static Offers all;
  return all;
}

class BetweenThreads : public MemorySharing {
 public:
  Offer offer(std::size_t bytes) override {
    Offer made{Mapping::anonymous(bytes), {}, nullptr};
    const std::lock_guard<std::mutex> lock(offers().mutex);
    const std::uint64_t number = offers().next++;
    offers().standing[number] = made.mapping;
    made.address = {::getpid(), -1, 0, number, bytes};
    made.keeper = std::shared_ptr<void>(nullptr, [number](void*) {
      const std::lock_guard<std::mutex> inner(offers().mutex);
      offers().standing.erase(number);
    });
    return made;
  }
  std::shared_ptr<Mapping> accept(const SegmentAddress& address) override {
    const std::lock_guard<std::mutex> lock(offers().mutex);
    const auto found = offers().standing.find(address.inode);
    auto mapping = found == offers().standing.end() ? nullptr : found->second.lock();
    if (!mapping || address.pid != ::getpid() || mapping->bytes() != address.bytes) {
      throw Error("the memory that another rank offers is not in this process", "engine thread",
                  "use engine shm where ranks are processes");
    }
    return mapping;
  }
  void reserve(const SegmentAddress&, std::size_t, std::size_t) override {}  // checked as a whole by `offer`
  bool one_address_space() const override { return true; }
};

}  // namespace

std::unique_ptr<MemorySharing> share_between_processes() { return std::make_unique<BetweenProcesses>(); }
std::unique_ptr<MemorySharing> share_between_threads() { return std::make_unique<BetweenThreads>(); }

}  // namespace lockstep::shm
