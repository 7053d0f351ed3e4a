// Tests what `lockstep plan` refuses before it measures.
#include <gtest/gtest.h>

#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "tools/frame/command_line.h"
#include "tools/frame/torch_error_text.h"

namespace lockstep {

std::unique_ptr<Subcommand> make_plan();

namespace {

// What `lockstep plan` with these flags prints, which must be that it does not understand them.
std::string refusal_of_plan(std::vector<std::string> words) {
  std::istringstream in;
  std::ostringstream out;
  std::ostringstream err;
  words.insert(words.begin(), "plan");
  EXPECT_EQ(run_command({{"plan", "", "", make_plan, ""}}, words, {in, out, err}, torch_error_text), 2) << out.str();
  return err.str();
}

TEST(PlanCommand, RefusesWhatItCannotRead) {
  const auto refused = [](std::vector<std::string> flags, const std::string& text) {
    flags.insert(flags.begin(), {"--model", "mlp-wide", "--batch", "8", "--steps", "5"});
    const std::string refusal = refusal_of_plan(flags);
    EXPECT_NE(refusal.find(text), std::string::npos) << refusal;
  };
  refused({"--link", "fast"}, "--link");
  refused({"--link", "100"}, "--link");
  refused({"--link", "0mbit"}, "--link");
  refused({"--link", "1e-9mbit"}, "--link");
  refused({"--link", "1e300gbit"}, "--link");
  refused({"--latency", "-1us"}, "--latency");
  refused({"--latency", "1e300s"}, "--latency");
  refused({"--threads", "100000"}, "--threads 100000");
  refused({"--seq", "5"}, "--seq 5");
  refused({"--plot", "/proc/x.svg"}, "--plot /proc/x.svg");
  refused({"--hosts", "0"}, "--hosts");
  const std::string seq = refusal_of_plan({"--model", "bert-tiny", "--seq", "100000"});
  EXPECT_NE(seq.find("at most 512 tokens"), std::string::npos) << seq;
  const std::string model = refusal_of_plan({"--model", "bert-giant"});
  EXPECT_NE(model.find("bert-mini"), std::string::npos) << model;
}

}  // namespace
}  // namespace lockstep
