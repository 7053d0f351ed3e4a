// What a library's failure on one rank is called, as engine nccl reports it: a lost rank is the better reason, and
// otherwise the library's own words reach every rank, and no healthy rank is blamed.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/failure_cause.h"
#include "lockstep/comm/failure/nccl_advice.h"
#include "lockstep/comm/mesh/supervisor.h"
#include "lockstep/net/thread_ranks.h"

namespace lockstep {
namespace {

const std::string kFullShm =
    "NCCL failed: ncclCommInitRankConfig: unhandled system error. Error while creating shared memory segment "
    "/dev/shm/nccl-x (size 9637888), error: No space left on device (28)";

struct UntouchedConnections : Connections {
  bool sees_losses() const override { return false; }
  std::vector<int> lost_peers() override { return {}; }
  void break_connections() noexcept override {}
};

// What rank 1 of three throws after its engine failed, while it was in a barrier.
struct EngineFailure {
  explicit EngineFailure(const MeshError& error, int lost = -1) {
    const auto store = std::make_shared<MemoryStore>();
    std::vector<Membership> members = thread_memberships(3, std::chrono::seconds(30), store);
    if (lost >= 0) store->mark_lost(lost, "its process was killed by signal 9");
    members[1].look_interval = std::chrono::milliseconds(5);
    Supervisor supervisor(members[1], std::make_shared<UntouchedConnections>());
    const Watched watched(supervisor, Activity(), Deadline::never());
    try {
      supervisor.raise(error);
    } catch (const Error& thrown) {
      text = thrown.what();
      if (const FailureCause* found = cause_of(thrown)) cause = *found;
    }
  }
  std::string text;
  FailureCause cause;
};

TEST(EngineFailureTexts, ASystemErrorIsThisRanksOwn) {
  const EngineFailure failure(MeshError(MeshError::Kind::Failed, kFullShm, {}, advice_after(kFullShm)));
  EXPECT_NE(failure.text.find("rank 1 on "), std::string::npos) << failure.text;
  EXPECT_NE(failure.text.find("ended the group: " + kFullShm), std::string::npos) << failure.text;
  EXPECT_NE(failure.text.find("--shm-size"), std::string::npos) << failure.text;
  EXPECT_EQ(failure.text.find("lost"), std::string::npos) << failure.text;
  EXPECT_EQ(failure.cause.rank, 1);
}

TEST(EngineFailureTexts, ALostRankIsTheBetterReason) {
  for (const std::vector<int>& said_to_be_lost : {std::vector<int>{}, {0, 2}}) {
    const EngineFailure failure(MeshError(MeshError::Kind::Failed, kFullShm, said_to_be_lost, "look"), 2);
    EXPECT_NE(failure.text.find("lost rank 2 on "), std::string::npos) << failure.text;
    EXPECT_EQ(failure.cause.kind, FailureCause::Kind::LostPeer);
    EXPECT_EQ(failure.cause.rank, 2);
  }
}

TEST(EngineFailureTexts, ALossThatNobodyElseSawBlamesNobody) {
  const EngineFailure failure(MeshError(MeshError::Kind::Failed, "NCCL failed: remote process exited", {0, 2}, "look"));
  EXPECT_NE(failure.text.find("rank 1 on "), std::string::npos) << failure.text;
  EXPECT_NE(failure.text.find("lost its connection to another rank: NCCL failed: remote process exited"),
            std::string::npos)
      << failure.text;
  EXPECT_EQ(failure.cause.kind, FailureCause::Kind::LostPeer);
  EXPECT_EQ(failure.cause.rank, -1);
}

TEST(EngineFailureTexts, EachHasItsAdvice) {
  for (const auto& [text, advice] : std::vector<std::pair<const char*, const char*>>{
           {"Cuda failure 'out of memory'", "smaller batch"},
           {"Call to socket: Too many open files", "ulimit -n"},
           {"Bootstrap : no socket interface found", "NCCL_SOCKET_IFNAME"},
           {"CUDA driver version is insufficient for CUDA runtime version", "driver"},
           {"internal error", "NCCL_DEBUG=INFO"}}) {
    EXPECT_NE(advice_after(text).find(advice), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace lockstep
