// Tests how a group over a mesh starts.
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "lockstep/comm/factory.h"
#include "lockstep/comm/mesh/guarded_mesh.h"
#include "lockstep/comm/mesh/mesh_communicator.h"
#include "tests/support/ranks.h"
#include "tests/support/test_size.h"

namespace lockstep {
namespace {

// Whether some rank's constructor has returned.
class FirstReturn {
 public:
  void happened() {
    const std::lock_guard<std::mutex> lock(mutex_);
    has_happened_ = true;
    changed_.notify_all();
  }
  bool happens_within(std::chrono::milliseconds time) {
    std::unique_lock<std::mutex> lock(mutex_);
    return changed_.wait_for(lock, time, [this] { return has_happened_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool has_happened_ = false;
};

// Connections that are nothing but the calls; `connect` may last.
class MeshOfCalls : public GuardedMesh {
 public:
  explicit MeshOfCalls(std::function<void()> on_connect) : on_connect_(std::move(on_connect)) {}
  void break_connections() noexcept override { mark_broken(); }
  bool sees_losses() const override { return false; }
  std::vector<int> lost_peers() override { return {}; }
  std::string address_for(int) override { return "here"; }
  void connect(int, const std::string&) override { on_connect_(); }
  std::unique_ptr<MeshBuffer> buffer(void*, std::size_t) override { return nullptr; }
  std::size_t packet_bytes() const override { return 64; }
  std::size_t packets_at_once() const override { return 1; }
  void send_packet(int, std::uint64_t, const void*, std::size_t) override {}
  const void* wait_packet(int, std::uint64_t, std::size_t) override { return nullptr; }
  void release_packet(int) override {}

 private:
  std::function<void()> on_connect_;
};

// A rank that has connected may leave at once, and its connections break: no other rank may still be connecting then.
TEST(MeshBringUp, NoRankReturnsBeforeAllHaveConnected) {
  FirstReturn first;
  run_ranks_as_threads(3, [&](const Membership& membership) {
    const MakeMesh make = [&](const Membership& members, Deadline, const std::function<void(const MeshError&)>&) {
      return std::make_unique<MeshOfCalls>([&first, rank = members.rank] {
        if (rank != 1) return;
        EXPECT_FALSE(first.happens_within(std::chrono::milliseconds(100))) << "a rank could have left";
      });
    };
    const auto group = make_mesh_communicator(membership, "calls", make);
    first.happened();
  });
}

// A rank that finds while it connects that another one is lost publishes that; the ranks that wait for it need no
// deadline to learn it.
TEST(MeshBringUp, AFailureOfARankThatConnectsReachesThoseThatWaitForIt) {
  const auto ends = ranks_as_threads(2, [](const Membership& membership) {
    const MakeMesh make = [](const Membership& members, Deadline, const std::function<void(const MeshError&)>&) {
      return std::make_unique<MeshOfCalls>([rank = members.rank] {
        if (rank == 1) throw MeshError(MeshError::Kind::Lost, "reset", {0});
      });
    };
    make_mesh_communicator(membership, "calls", make);
  });
  for (const RankOutcome& end : ends) {
    EXPECT_TRUE(end.failed);
    EXPECT_FALSE(end.timed_out) << end.text;
    EXPECT_NE(end.text.find("rank 0"), std::string::npos) << end.text;
  }
}

// With real connections: each rank leaves as soon as its constructor returns.
TEST(MeshBringUp, RanksOfGlooMayLeaveAtOnce) {
  for (int round = 0; round < test_size(3, 10); ++round) {
    run_ranks_as_processes(4, [](const Membership& membership) { make_communicator("gloo", membership); });
  }
}

}  // namespace
}  // namespace lockstep
