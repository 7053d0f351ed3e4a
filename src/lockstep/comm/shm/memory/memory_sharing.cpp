#include "lockstep/comm/shm/memory/memory_sharing.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/kernel_call.h"

namespace lockstep::shm {
namespace {

Segment map_new_file(std::size_t bytes) {
  UniqueFd fd = create_segment(bytes);
  auto mapping = Mapping::of_file(fd.get(), bytes);
  return {std::move(mapping), std::move(fd)};
}

class BetweenProcesses : public MemorySharing {
 public:
  std::uint64_t inbox() const override { return inbox_.name(); }
  std::string inbox_folder() const override { return shm::inbox_folder(); }
  Segment make(std::size_t bytes) override { return map_new_file(bytes); }
  Segment make_file(std::size_t bytes) override { return map_new_file(bytes); }
  bool offer(const Segment& segment, const Recipient& to, Deadline deadline) override {
    return send_descriptor(to.inbox, to.label, segment.fd.get(), deadline);
  }
  Segment accept(const Label& label, std::size_t bytes, std::chrono::milliseconds patience) override {
    UniqueFd fd = inbox_.take(label, patience);
    if (!fd) return Segment();
    check_segment(fd.get(), bytes);
    auto mapping = Mapping::of_file(fd.get(), bytes);
    return {std::move(mapping), std::move(fd)};
  }
  void reserve(const Segment& segment, std::size_t offset, std::size_t bytes) override {
    reserve_pages(segment.fd.get(), offset, bytes);
  }
  bool one_address_space() const override { return false; }

 private:
  DescriptorInbox inbox_;
};

// Memory that ranks of this process have been offered and have not accepted.
struct ThreadOffers {
  std::mutex mutex;
  std::condition_variable changed;
  std::uint64_t last_inbox = 0;
  std::map<std::pair<std::uint64_t, Label>, Segment> standing;
};

ThreadOffers& thread_offers() {
  static ThreadOffers all;
  return all;
}

Segment same_segment(const Segment& segment) {
  UniqueFd fd;
  if (segment.fd) fd = UniqueFd(::fcntl(segment.fd.get(), F_DUPFD_CLOEXEC, 0));
  if (segment.fd && !fd) {
    throw_failed_call("cannot share a memory file", "fcntl", errno, "shared memory",
                      "raise the limit of open files (ulimit -n)");
  }
  return {segment.mapping, std::move(fd)};
}

class BetweenThreads : public MemorySharing {
 public:
  BetweenThreads() {
    const std::lock_guard<std::mutex> lock(thread_offers().mutex);
    inbox_ = ++thread_offers().last_inbox;
  }
  ~BetweenThreads() override {
    const std::lock_guard<std::mutex> lock(thread_offers().mutex);
    auto& standing = thread_offers().standing;
    standing.erase(standing.lower_bound({inbox_, Label()}), standing.lower_bound({inbox_ + 1, Label()}));
  }
  std::uint64_t inbox() const override { return inbox_; }
  std::string inbox_folder() const override { return "this process"; }
  Segment make(std::size_t bytes) override { return {Mapping::anonymous(bytes), UniqueFd()}; }
  Segment make_file(std::size_t bytes) override { return map_new_file(bytes); }
  bool offer(const Segment& segment, const Recipient& to, Deadline) override {
    const std::lock_guard<std::mutex> lock(thread_offers().mutex);
    thread_offers().standing[{to.inbox, to.label}] = same_segment(segment);
    thread_offers().changed.notify_all();
    return true;
  }
  Segment accept(const Label& label, std::size_t bytes, std::chrono::milliseconds patience) override {
    std::unique_lock<std::mutex> lock(thread_offers().mutex);
    auto& standing = thread_offers().standing;
    const std::pair key(inbox_, label);
    if (!thread_offers().changed.wait_for(lock, patience, [&] { return standing.count(key) != 0; })) return Segment();
    Segment segment = std::move(standing[key]);
    standing.erase(key);
    if (segment.mapping->bytes() != bytes) {
      throw Error(fmt::format("another rank offers {} bytes, not {}", segment.mapping->bytes(), bytes), "engine thread",
                  "report this");
    }
    return segment;
  }
  void reserve(const Segment&, std::size_t, std::size_t) override {}  // `make` checked the whole
  bool one_address_space() const override { return true; }

 private:
  std::uint64_t inbox_ = 0;
};

}  // namespace

std::unique_ptr<MemorySharing> share_between_processes() { return std::make_unique<BetweenProcesses>(); }
std::unique_ptr<MemorySharing> share_between_threads() { return std::make_unique<BetweenThreads>(); }

}  // namespace lockstep::shm
