#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/base/files/unique_fd.h"
#include "lockstep/base/home_process.h"
#include "lockstep/net/store/store_client.h"
#include "lockstep/net/worlds/store_move.h"

namespace lockstep {

/// The store of a job that another host serves once its host is lost. While it is lost, all calls throw StoreLostError;
/// `follow` connects to the next one, in which nothing of the earlier one is left. Thread-safe.
class MovingStore : public Store, public KeyedStore {
 public:
  /// @param client  that has joined or entered
  /// @param self    what this process enters the next store with
  /// @param round   of its meeting
  /// @param file    in which the launcher says where the store is
  MovingStore(std::shared_ptr<StoreClient> client, JoinRequest self, int round, std::string file);
  ~MovingStore() override { watch_no_more(); }
  MovingStore(const MovingStore&) = delete;
  MovingStore& operator=(const MovingStore&) = delete;

  /// How many stores of the job were lost before the present one.
  std::int64_t era() const;
  /// From now on a thread waits for the launcher's word that the store has moved. Then the connection to the present
  /// one counts as lost, and `on_move` is called, from that thread.
  void watch(std::function<void()> on_move);
  /// Ends the thread.
  void watch_no_more();
  /// Waits until the launcher knows the next store, connects, and enters it.
  /// @throws StoreLostError  if that one is lost, too
  /// @throws TimeoutError  at the deadline
  StoreMove follow(Deadline deadline);

  void set(const std::string& key, const std::string& value) override { client()->set(key, value); }
  std::string get(const std::string& key, Deadline deadline) override { return client()->get(key, deadline); }
  std::optional<std::string> try_get(const std::string& key) override { return client()->try_get(key); }
  std::vector<std::optional<std::string>> try_get_all(const std::vector<std::string>& keys) override {
    return client()->try_get_all(keys);
  }
  std::int64_t add(const std::string& key, std::int64_t delta) override { return client()->add(key, delta); }
  std::string compare_set(const std::string& key, const std::string& expected, const std::string& desired) override {
    return client()->compare_set(key, expected, desired);
  }
  bool delete_key(const std::string& key) override { return client()->delete_key(key); }
  void wait(const std::vector<std::string>& keys, Deadline deadline) override { client()->wait(keys, deadline); }
  std::int64_t num_keys() override { return client()->num_keys(); }
  std::vector<LostRank> lost_ranks() override { return client()->lost_ranks(); }
  void finish(Deadline deadline) override { client()->finish(deadline); }
  std::string job_key() const override { return client()->job_key(); }

 private:
  std::shared_ptr<StoreClient> client() const;
  void watch_file(const UniqueFd& changes);
  std::optional<StoreMove> newer_store() const;
  void take_news(const StoreMove& move);
  StoreMove await_news(Deadline deadline);

  const JoinRequest self_;
  const int round_;
  const std::string file_;
  const HomeProcess home_;  // a forked child has no watching thread
  std::function<void()> on_move_;
  UniqueFd stop_;
  std::thread thread_;

  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::shared_ptr<StoreClient> client_;
  std::int64_t era_ = 0;
  std::optional<StoreMove> news_;  // of a store that this process has not entered
};

/// The moving store below a group's store; null if the store does not move.
std::shared_ptr<MovingStore> moving_store_below(const std::shared_ptr<Store>& store);

}  // namespace lockstep
