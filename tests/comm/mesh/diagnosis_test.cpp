// The cost to the store of finding out why an operation is slow, for up to thousands of ranks.
#include "lockstep/comm/mesh/diagnosis.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "lockstep/base/processor/topology.h"
#include "lockstep/comm/mesh/talk_times.h"
#include "lockstep/net/server/store_server.h"
#include "lockstep/net/store/prefix_store.h"
#include "lockstep/net/store/store_client.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class NothingLost : public Connections {
 public:
  bool sees_losses() const override { return false; }  // the costliest case: the store is also asked for lost ranks
  std::vector<int> lost_peers() override { return {}; }
  void break_connections() noexcept override {}
};

Fingerprint barrier_of(std::uint64_t sequence) {
  Fingerprint fingerprint;
  fingerprint.sequence = sequence;
  return fingerprint;
}

Activity in_barrier(std::uint64_t sequence) {
  Activity activity;
  activity.fingerprint = barrier_of(sequence);
  return activity;
}

class SlowStep {
 public:
  explicit SlowStep(int ranks) : server_(SocketAddress::unix_socket(folder_ / "store"), "") {
    StoreClientOptions options;
    options.heartbeat_interval = std::chrono::hours(1);
    const auto client = std::make_shared<StoreClient>(server_.address(), "", Deadline::after(seconds(30)), options);
    membership_.world_size = ranks;
    membership_.timeout = std::chrono::minutes(30);
    membership_.store = client;
    for (int rank = 0; rank < ranks; ++rank) membership_.peers.push_back({rank, "h", "h", 1, rank});
    for (int rank = 1; rank + 1 < ranks; ++rank) {  // all but the last have reached the barrier
      RankState state;
      state.current = {in_barrier(7)};
      client->set("mesh/state/" + std::to_string(rank), encode_state(state));
    }
  }

  // Requests of rank 0, which has waited for a second, during many looks in a row.
  std::uint64_t requests_of_many_looks() {
    Diagnosis diagnosis(membership_);
    Diagnosis::View view;
    view.current.push_back({in_barrier(7), Deadline::Clock::now() - seconds(1), Deadline::never()});
    NothingLost connections;
    const std::uint64_t before = server_.requests();
    for (int i = 0; i < 10; ++i) {
      const auto found = diagnosis.look(view, connections);
      EXPECT_FALSE(found) << found->happened;
    }
    return server_.requests() - before;
  }

 private:
  TemporaryFolder folder_;
  StoreServer server_;
  Membership membership_;
};

TalkTimes times_of(int ranks) {
  Membership membership;
  membership.world_size = ranks;
  return TalkTimes(membership);
}

TEST(DiagnosisCost, TheStoreServesAFewHundredRequestsInASecondWhateverTheNumberOfRanks) {
  constexpr std::uint64_t kOfATalk = 3;      // its report, the group's failure, the states of late ranks
  constexpr std::uint64_t kOfALossLook = 2;  // the group's failure, the lost ranks
  for (const int ranks : {1024, 4096}) {
    const std::uint64_t requests = SlowStep(ranks).requests_of_many_looks();
    EXPECT_GE(requests, kOfATalk) << ranks;
    EXPECT_LE(requests, kOfATalk + kOfALossLook) << ranks;
    const auto per_second = [&](std::uint64_t of_each, std::chrono::milliseconds interval) {
      return static_cast<double>(of_each) * ranks / std::chrono::duration<double>(interval).count();
    };
    const TalkTimes times = times_of(ranks);
    EXPECT_LE(per_second(kOfATalk, times.between_talks(seconds(1))), 1000) << ranks;
    EXPECT_LE(per_second(kOfALossLook, times.between_loss_looks()), 2000) << ranks;
  }
}

// Each rank reads the states of all so rarely that all ranks together read some hundred thousand in ten seconds.
TEST(DiagnosisCost, StatesOfAllAreReadRarely) {
  for (const int ranks : {8, 64, 1024}) {
    const TalkTimes times = times_of(ranks);
    const double between_s = std::chrono::duration<double>(times.between_talks(seconds(1))).count() *
                             static_cast<double>(times.talks_between_hearing_all());
    EXPECT_LE(static_cast<double>(ranks) * ranks / between_s, 15'000) << ranks;
  }
}

TEST(DiagnosisCost, ADisagreementIsFoundAllTheSame) {
  const TemporaryFolder folder;
  const StoreServer server(SocketAddress::unix_socket(folder / "store"), "");
  Membership membership;
  membership.world_size = 300;
  membership.timeout = std::chrono::minutes(30);
  membership.store = std::make_shared<StoreClient>(server.address(), "", Deadline::after(seconds(30)));
  for (int rank = 0; rank < membership.world_size; ++rank) membership.peers.push_back({rank, "h", "h", 1, rank});
  RankState other;
  other.current = {in_barrier(7)};
  other.current.front().fingerprint.kind = OperationKind::AllReduce;
  membership.store->set("mesh/state/299", encode_state(other));
  Diagnosis diagnosis(membership);
  Diagnosis::View view;
  view.current.push_back({in_barrier(7), Deadline::Clock::now() - seconds(1), Deadline::never()});
  NothingLost connections;
  const auto found = diagnosis.look(view, connections);
  ASSERT_TRUE(found);
  EXPECT_NE(found->happened.find("rank 299 on h calls all_reduce #7"), std::string::npos) << found->happened;
}

// Ranks 0 and 1 wait for rank 2, which reports what the test says, in a group of three.
GroupFailure failure_after(const std::optional<Activity>& of_last,
                           const std::optional<std::uint64_t>& all_have_ended = std::nullopt) {
  const TemporaryFolder folder;
  const StoreServer server(SocketAddress::unix_socket(folder / "store"), "");
  Membership membership;
  membership.world_size = 3;
  membership.timeout = seconds(5);
  membership.store = std::make_shared<StoreClient>(server.address(), "", Deadline::after(seconds(30)));
  for (int rank = 0; rank < 3; ++rank) membership.peers.push_back({10 + rank, "h", "h", 1, rank});
  RankState waits, last;
  waits.current = {in_barrier(7)};
  if (of_last) last.current = {*of_last};
  membership.store->set("mesh/state/1", encode_state(waits));
  membership.store->set("mesh/state/2", encode_state(last));
  Diagnosis diagnosis(membership);
  Diagnosis::View view;
  if (all_have_ended) view.ended = {barrier_of(*all_have_ended)};
  const auto now = Deadline::Clock::now();
  view.current.push_back({in_barrier(8), now - seconds(5), Deadline::after(milliseconds(0))});
  NothingLost connections;
  return diagnosis.look(view, connections).value();
}

TEST(DiagnosisBlame, ARankThatWaitsItselfIsNotToBlame) {
  const GroupFailure failure = failure_after(std::nullopt);
  EXPECT_EQ(failure.blamed, 12) << failure.happened;
  EXPECT_NE(failure.happened.find("rank 1 (11 of the job)"), std::string::npos) << failure.happened;
}

// It was slow to connect, and quick since.
TEST(DiagnosisBlame, ARankThatConnectedSlowlyWasSeenLaterAllTheSame) {
  Activity start;
  start.is_group_start = true;
  const GroupFailure failure = failure_after(start, 6);
  EXPECT_NE(failure.happened.find("last seen entering barrier #6"), std::string::npos) << failure.happened;
  EXPECT_EQ(failure.happened.find("the start of the group"), std::string::npos) << failure.happened;
}

TEST(DiagnosisBlame, NobodyIsToBlameIfAllWait) {
  const GroupFailure failure = failure_after(in_barrier(7));
  EXPECT_EQ(failure.kind, GroupFailure::Kind::Timeout);
  EXPECT_EQ(failure.blamed, -1) << failure.happened;
}

}  // namespace
}  // namespace lockstep
