#include "lockstep/launch/attempt.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using Words = std::vector<std::string>;

// Other nodes, of which a test decides what they say.
class SaidNodes : public NodeGroup {
 public:
  std::string store_address() const override { return ""; }
  const std::string& secret() const override { return secret_; }
  int node_rank() const override { return 0; }
  Agreement agree() override { return {}; }
  void mark_lost(int /*rank*/, const std::string& /*cause*/) override {}
  void note_success(int /*member*/) override { answer(answer_to_an_end); }
  void ask_for_member() override { take("asks", answer_to_asking); }
  bool spans_nodes() const override { return false; }
  void report_survival() override {}
  void report_no_ranks(const std::string& /*story*/) override { take("has no ranks", nullptr); }
  void report_failure(const RankFailure& failure) override {
    story = failure.story;
    take("failed", answer_to_failure);
  }
  void report_leaving(const std::string& /*why*/) override { take("leaves", answer_to_failure); }
  void report_success() override {
    take("succeeded", [this] { publish({true, true, false, ""}); });
  }
  void leave() override {}
  void abort_leave() override {}

  void forget_outcome() { outcome_.reset(); }
  void publish(const Outcome& outcome) { outcome_.publish(outcome); }
  void grant(int member) { grants_.push(member); }

  Words reports;
  std::string story;  // of the last failure
  std::function<void()> answer_to_an_end;
  std::function<void()> answer_to_asking;
  std::function<void()> answer_to_failure = [this] { publish({false, true, false, story}); };

 private:
  static void answer(const std::function<void()>& by) {
    if (by) by();
  }
  void take(const char* report, const std::function<void()>& by) {
    reports.emplace_back(report);
    answer(by);
  }

  std::string secret_ = "s";
};

// Ranks are shells.
class AttemptOfShells : public ::testing::Test {
 protected:
  // @param scripts  of the ranks
  void run(const Words& scripts) {
    plan_.local_ranks = static_cast<int>(scripts.size());
    std::string cases;
    for (std::size_t i = 0; i < scripts.size(); ++i) cases += std::to_string(i) + ") " + scripts[i] + " ;; ";
    plan_.command = {"/bin/sh", "-c", "case ${local_rank} in " + cases + "esac"};
    plan_.grace_after_failure = plan_.grace_after_signal = std::chrono::seconds(20);
    plan_.redirects.resize(scripts.size());
    plan_.tee.resize(scripts.size());
    plan_.shown.assign(scripts.size(), true);
    plan_.affinity = CpuAffinity::None;
    std::vector<RankPlace> places(scripts.size());
    for (std::size_t i = 0; i < scripts.size(); ++i) {
      places[i].rank = places[i].local_rank = static_cast<int>(i);
      places[i].world_size = places[i].local_world_size = plan_.local_ranks;
      places[i].job_mark = "attempt-test";
    }
    JobFolder folder("none", "", false);
    SignalInbox signals;
    OrphanGuard guard("attempt-test", folder.private_path());
    EventLoop loop;
    Console out(loop, STDOUT_FILENO), err(loop, STDERR_FILENO);
    SpareRanks spares(loop, guard);
    Attempt attempt({plan_, loop, out, err, folder, guard, spares, -1}, nodes_, signals);
    attempt.start(places);
    if (signal_ != 0) ::pthread_kill(::pthread_self(), signal_);
    attempt.run();
    attempt.clean_up();
    outcome_ = attempt.outcome();
    was_signalled_ = attempt.signal();
    ends_ = attempt.ends();
  }

  // A pipe with a name, for scripts: one reads what another one, or this process, writes.
  std::string pipe(const std::string& name) {
    const std::string path = folder_ / name;
    EXPECT_EQ(::mkfifo(path.c_str(), 0600), 0);
    return path;
  }

  TemporaryFolder folder_;
  LaunchPlan plan_;
  SaidNodes nodes_;
  int signal_ = 0;  // that the launcher gets once the ranks have started
  std::optional<Outcome> outcome_;
  std::optional<int> was_signalled_;
  std::vector<RankEnd> ends_;
};

TEST_F(AttemptOfShells, SucceedsOnceAllHave) {
  run({"exit 0", "exit 0"});
  EXPECT_EQ(nodes_.reports, (Words{"succeeded"}));
  EXPECT_TRUE(outcome_->success);
}

TEST_F(AttemptOfShells, ReportsOneFailureAndEndsTheOthers) {
  for (const char* second : {"sleep 60", "exit 4"}) {
    nodes_.reports.clear();
    run({"exit 3", second});
    EXPECT_EQ(nodes_.reports, (Words{"failed"})) << second;
    EXPECT_FALSE(outcome_->success);
    EXPECT_EQ(ends_.size(), 2U);
    nodes_.forget_outcome();
  }
}

TEST_F(AttemptOfShells, ReportsNoFailureOfRanksThatASignalEnds) {
  signal_ = SIGTERM;
  run({"sleep 60", "sleep 60"});
  EXPECT_EQ(nodes_.reports, (Words{"leaves"}));
  EXPECT_EQ(was_signalled_, SIGTERM);
}

// The first rank survives the second one's loss, a process takes its place, and lets the first one end.
TEST_F(AttemptOfShells, StartsAProcessThatIsGranted) {
  const std::string end = pipe("end");
  nodes_.answer_to_asking = [this] { nodes_.grant(2); };
  run({": > $LOCKSTEP_SURVIVAL_FILE; read line < " + end,
       "if test x$LOCKSTEP_MEMBER = x2; then echo > " + end + "; exit 0; fi; : > $LOCKSTEP_SURVIVAL_FILE; exit 1"});
  EXPECT_EQ(nodes_.reports, (Words{"asks", "succeeded"}));
  EXPECT_EQ(ends_.size(), 3U);
}

// A third rank fails that nobody survives, and then the answer comes.
TEST_F(AttemptOfShells, StartsNoProcessThatIsGrantedOnceTheRanksEnd) {
  const std::string is_ready = pipe("ready"), fails = pipe("fails");
  nodes_.answer_to_asking = [&] { std::ofstream(fails) << std::endl; };
  nodes_.answer_to_failure = [this] { nodes_.grant(3); };
  nodes_.answer_to_an_end = [this] { nodes_.publish({false, true, false, nodes_.story}); };
  run({"trap 'exit 0' TERM; : > $LOCKSTEP_SURVIVAL_FILE; echo > " + is_ready + "; sleep 60",
       "read line < " + is_ready + "; : > $LOCKSTEP_SURVIVAL_FILE; exit 1", "read line < " + fails + "; exit 3"});
  EXPECT_EQ(nodes_.reports, (Words{"asks", "failed"}));
  EXPECT_EQ(ends_.size(), 3U) << "a process was started";
}

}  // namespace
}  // namespace lockstep
