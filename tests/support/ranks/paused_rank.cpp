#include "tests/support/ranks/paused_rank.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <condition_variable>
#include <mutex>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/net/peers/job_key.h"

namespace lockstep {

// Every wait for another rank is a chain of short waits, with a look at the lost ranks after each that ends in vain.
class PausedRank::WatchedStore : public Store, public KeyedStore {
 public:
  explicit WatchedStore(std::shared_ptr<Store> store) : store_(std::move(store)) {}

  void count_anew() {
    const std::lock_guard<std::mutex> lock(mutex_);
    vain_waits_ = 0;
  }
  /// True once so many waits have ended in vain.
  bool await_vain_waits(int count, Deadline deadline) {
    std::unique_lock<std::mutex> lock(mutex_);
    return changed_.wait_until(lock, deadline.at(), [&] { return vain_waits_ >= count; });
  }

  std::string get(const std::string& key, Deadline deadline) override {
    return counted([&] { return store_->get(key, deadline); });
  }
  void wait(const std::vector<std::string>& keys, Deadline deadline) override {
    counted([&] { store_->wait(keys, deadline); });
  }
  void set(const std::string& key, const std::string& value) override { store_->set(key, value); }
  std::optional<std::string> try_get(const std::string& key) override { return store_->try_get(key); }
  std::vector<std::optional<std::string>> try_get_all(const std::vector<std::string>& keys) override {
    return store_->try_get_all(keys);
  }
  std::int64_t add(const std::string& key, std::int64_t delta) override { return store_->add(key, delta); }
  std::string compare_set(const std::string& key, const std::string& expected, const std::string& desired) override {
    return store_->compare_set(key, expected, desired);
  }
  bool delete_key(const std::string& key) override { return store_->delete_key(key); }
  std::int64_t num_keys() override { return store_->num_keys(); }
  std::vector<LostRank> lost_ranks() override { return store_->lost_ranks(); }
  std::string job_key() const override { return lockstep::job_key(*store_); }

 private:
  template <class Body>
  auto counted(Body&& body) -> decltype(body()) {
    try {
      return body();
    } catch (const TimeoutError&) {
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        ++vain_waits_;
      }
      changed_.notify_all();
      throw;
    }
  }

  const std::shared_ptr<Store> store_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int vain_waits_ = 0;
};

PausedRank::PausedRank(const Membership& membership)
    : membership_(membership), watched_(std::make_shared<WatchedStore>(membership.store)) {
  membership_.store = watched_;
}

void PausedRank::pause() {
  if (membership_.rank == 1) ::raise(SIGSTOP);
  if (membership_.rank != 0) return;
  const Deadline end = Deadline::after(std::chrono::seconds(30));
  while (watched_->lost_ranks().empty() && !end.passed()) std::this_thread::yield();  // the store's list rings no bell
  EXPECT_FALSE(watched_->lost_ranks().empty());
  watched_->count_anew();
  waker_ = std::thread([this] {
    EXPECT_TRUE(watched_->await_vain_waits(3, Deadline::after(std::chrono::seconds(30))));
    ::kill(membership_.peers[1].pid, SIGCONT);
  });
}

PausedRank::~PausedRank() {
  if (waker_.joinable()) waker_.join();
}

}  // namespace lockstep
