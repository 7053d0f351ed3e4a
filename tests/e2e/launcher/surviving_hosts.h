// Hosts that train, which several launchers of this machine represent, for tests that let them lose ranks and each
// other.
#pragma once

#include <signal.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/e2e/launch.h"

namespace lockstep {

using Program = std::unique_ptr<RunningProgram>;

// Where others must have time to join, the steps before that are slow, which is an event.
inline const std::string kSteps = "1000";

// The number after "bits " in what any host's ranks have printed.
inline std::string bits_of(const std::vector<ProgramEnd>& ends) {
  for (const ProgramEnd& end : ends) {
    const std::size_t at = end.out.find("bits ");
    if (at != std::string::npos) return end.out.substr(at, 21);
  }
  return "none";
}

class SurvivingHosts : public ::testing::Test {
 protected:
  // Hosts whose number is given. `events` are arguments of elastic_rank; if the first one is fuse, updates are fused.
  Program fixed(int node, const Words& more, const Words& events, const Changes& variables = {}) const {
    Words flags{"--nnodes=2", "--node-rank=" + std::to_string(node), "--master-port=" + port_.text()};
    flags.insert(flags.end(), more.begin(), more.end());
    return start(flags, events, variables);
  }
  // Hosts that may come and go.
  Program elastic(const std::string& nnodes, const Words& events, const Words& more = {}) const {
    Words flags{"--nnodes=" + nnodes, "--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:" + port_.text(),
                "--rdzv-conf=last_call_timeout=0.2"};
    flags.insert(flags.end(), more.begin(), more.end());
    return start(flags, events);
  }
  // A host that trains, and one that has joined it. `events` let rank 0 say that it is in step 20.
  std::pair<Program, Program> host_and_joiner(const Words& events, const Words& flags) const {
    Program first = elastic("1:2", events, flags);
    expect(first, "in step 20");
    return {std::move(first), joiner(events, flags)};
  }
  Program joiner(const Words& events, const Words& flags) const {
    Program host = elastic("1:2", events, flags);
    expect(host, "has joined as rank ");
    return host;
  }
  static Program start(const Words& flags, const Words& events, Changes variables = {}) {
    Words program{kBin + "/elastic_rank"};
    const bool fuses = events.front() == "fuse";
    if (fuses) program.push_back("fuse");
    program.push_back(kSteps);
    program.insert(program.end(), events.begin() + (fuses ? 1 : 0), events.end());
    variables["OMP_NUM_THREADS"] = "1";
    return std::make_unique<RunningProgram>(launch(flags, program), variables);
  }
  static void expect(const Program& host, const std::string& text) {
    EXPECT_TRUE(host->wait_for(text, soon())) << text << " did not come:\n" << host->out() << host->err();
  }
  static ProgramEnd end_of(const Program& host, int code = 0) {
    const ProgramEnd end = host->wait(Deadline::after(std::chrono::seconds(120)));
    EXPECT_EQ(end.code, code) << end.out << end.err;
    return end;
  }
  static void expect_undisturbed(const std::vector<ProgramEnd>& ends) {
    static const std::string bits = bits_of({run({}, {kBin + "/elastic_rank", kSteps}, {{"OMP_NUM_THREADS", "1"}})});
    EXPECT_NE(bits, "none");
    EXPECT_EQ(bits_of(ends), bits);
  }
  // A launcher that begins where the job was served, after the host that served it was lost.
  Program again(const Words& events, const std::string& nnodes = "1:2", Words more = {}) const {
    more.emplace_back("--rdzv-conf=last_call_timeout=60");
    Program host = elastic(nnodes, events, more);
    expect(host, "the job runs already, and is served at tcp:127.0.0.1:");
    expect(host, "this host joins the running ranks of another host");
    return host;
  }
  // The ranks of the first one were not started again, and the result is the undisturbed one.
  static void expect_survived(const Program& host, const Program& joined) {
    const ProgramEnd end = end_of(host);
    EXPECT_FALSE(has(end.err, "the ranks start: ")) << "no rank was started again: " << end.err;
    expect_undisturbed({end, end_of(joined)});
  }
  static bool wait_for_two(const Program& host, const std::string& text) {
    const auto has_two = [&] {
      const std::string all = host->out() + host->err();
      return all.find(text) != all.rfind(text);
    };
    while (!has_two()) {
      if (!host->wait_for_more(soon())) return false;
    }
    return true;
  }
  const LoopbackPort port_;
};

}  // namespace lockstep
