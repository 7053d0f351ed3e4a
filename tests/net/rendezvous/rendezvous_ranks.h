#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/processor/topology.h"
#include "lockstep/net/rendezvous.h"
#include "tests/net/net_fixtures.h"

// Ranks that meet, as threads of a test or as its child processes.
namespace lockstep::testing {

inline RendezvousOptions options_for(const std::string& init_method, int rank, int world_size) {
  RendezvousOptions options;
  options.init_method = init_method;
  options.rank = rank;
  options.world_size = world_size;
  options.timeout = std::chrono::seconds(60);
  return options;
}

/// Each rank sets its key, sees the keys of all others, and leaves.
inline void exchange(const Membership& membership) {
  membership.store->set("from " + std::to_string(membership.rank), "hello");
  for (int rank = 0; rank < membership.world_size; ++rank) {
    EXPECT_EQ(membership.store->get("from " + std::to_string(rank), patience()), "hello");
  }
  EXPECT_TRUE(membership.store->lost_ranks().empty());
  membership.store->finish(patience());
}

/// Ranks as threads, with what each returned or threw.
struct Outcome {
  Membership membership;
  std::string error;
};
inline std::vector<Outcome> meet(const std::vector<RendezvousOptions>& all, bool exchange_after = true) {
  std::vector<Outcome> outcomes(all.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < all.size(); ++i) {
    threads.emplace_back([&, i] {
      try {
        outcomes[i].membership = rendezvous(all[i]);
        if (exchange_after) exchange(outcomes[i].membership);
      } catch (const Error& error) {
        outcomes[i].error = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

inline std::vector<RendezvousOptions> all_ranks(const std::string& init_method, int world_size) {
  std::vector<RendezvousOptions> all;
  for (int rank = 0; rank < world_size; ++rank) all.push_back(options_for(init_method, rank, world_size));
  return all;
}

inline void expect_complete(const std::vector<Outcome>& outcomes) {
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    EXPECT_EQ(outcomes[i].error, "");
    const Membership& membership = outcomes[i].membership;
    EXPECT_EQ(membership.rank, static_cast<int>(i));
    ASSERT_EQ(membership.peers.size(), outcomes.size());
    for (std::size_t k = 0; k < outcomes.size(); ++k) {
      EXPECT_EQ(membership.peers[k].global_rank, static_cast<int>(k));
      EXPECT_EQ(membership.peers[k].local_rank, static_cast<int>(k));
      EXPECT_EQ(membership.peers[k].host, host_name());
    }
    EXPECT_TRUE(membership.on_one_host());
  }
}

/// The arguments of the child process "one_rank" (rendezvous_test.cpp).
inline std::vector<std::string> rank_arguments(const std::string& init_method, const std::string& rank,
                                               const std::string& world_size, const std::string& timeout_ms = "60000") {
  return {init_method, rank, world_size, timeout_ms};
}

}  // namespace lockstep::testing
