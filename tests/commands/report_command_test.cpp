// Tests `lockstep report`: from a training's folder to one HTML file.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/commands/run_command.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

ProgramEnd run_report(CommandWords words) {
  words.insert(words.begin(), "report");
  return run_command(words);
}

std::string content_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(ReportCommand, WritesOneFileAndPrintsItsPath) {
  const TemporaryFolder folder;
  std::ofstream(folder / "metrics.jsonl") << R"({"kind":"start","step":0,"time":1,"arguments":{"seed":42}})"
                                          << "\n"
                                          << R"({"kind":"log","step":10,"time":2,"loss":0.5,"eval_f1":0.25})"
                                          << "\n";
  const ProgramEnd end = run_report({folder.path()});
  ASSERT_EQ(end.code, 0) << end.err;
  EXPECT_EQ(end.out, folder / "report.html\n");
  const std::string html = content_of(folder / "report.html");
  for (const char* part : {"<!DOCTYPE html>", "eval_f1", "seed", "</html>"}) {
    EXPECT_NE(html.find(part), std::string::npos) << part;
  }
  ASSERT_EQ(run_report({folder.path(), "--output", folder / "other.html"}).code, 0);
  EXPECT_EQ(content_of(folder / "other.html"), html);
}

TEST(ReportCommand, SaysThatALogIsEmpty) {
  const TemporaryFolder folder;
  std::ofstream(folder / "metrics.jsonl").close();
  const ProgramEnd end = run_report({folder.path()});
  EXPECT_EQ(end.code, 1);
  EXPECT_NE(end.err.find("metrics.jsonl holds no entry"), std::string::npos) << end.err;
  EXPECT_FALSE(std::filesystem::exists(folder / "report.html"));
  // Another file about the training is used instead, and the command reports that.
  std::ofstream(folder / "trainer_state.json")
      << R"({"global_step": 4, "max_steps": 8, "log_history": [{"step": 4, "loss": 0.5}]})";
  const ProgramEnd instead = run_report({folder.path()});
  EXPECT_EQ(instead.code, 0) << instead.err;
  EXPECT_NE(instead.err.find("metrics.jsonl holds no entry"), std::string::npos) << instead.err;
}

TEST(ReportCommand, SaysWhatIsMissing) {
  const TemporaryFolder folder;
  const ProgramEnd end = run_report({folder.path()});
  EXPECT_EQ(end.code, 1);
  EXPECT_NE(end.err.find("holds neither metrics.jsonl nor trainer_state.json"), std::string::npos) << end.err;
  EXPECT_NE(end.err.find("--output_dir"), std::string::npos) << end.err;
  EXPECT_FALSE(std::filesystem::exists(folder / "report.html"));
  EXPECT_EQ(run_report({}).code, 2);
}

}  // namespace
}  // namespace lockstep
