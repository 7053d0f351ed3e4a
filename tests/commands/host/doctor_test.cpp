// Tests `lockstep doctor` on a host without devices. tests/gpu has the tests with devices.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "tests/commands/run_command.h"
#include "tests/support/temporary_folder.h"
#include "tools/lockstep/doctor/doctor_job.h"
#include "tools/lockstep/doctor/doctor_report.h"

namespace lockstep {
namespace {

using Json = nlohmann::json;

Json read_json(const std::string& path) {
  std::ifstream in(path);
  return Json::parse(in);
}

// Several seconds: processes that load LibTorch, for five steps.
TEST(Doctor, FindsThisHostFit) {
  const TemporaryFolder folder;
  const ProgramEnd end = run_command({"doctor", "--steps", "host,device,pairs,group,loss,equality", "--size", "small",
                                      "--output", folder / "doctor.json"},
                                     "", {{"CUDA_VISIBLE_DEVICES", ""}});
  ASSERT_EQ(end.code, 0) << end.out << end.err;
  EXPECT_TRUE(says(end.out, "All 5 steps that apply here passed")) << end.out;
  const Json report = read_json(folder / "doctor.json");
  EXPECT_EQ(report["passed"], true);
  EXPECT_FALSE(report["versions"]["libtorch"].get<std::string>().empty());
  ASSERT_EQ(report["steps"].size(), 6U);
  EXPECT_EQ(report["steps"][2]["verdict"], "skipped");
  EXPECT_EQ(report["steps"][2]["why"], "it needs two CUDA devices");
  const Json& device = report["steps"][1]["figures"][0];
  EXPECT_EQ(device["device"], "cpu");
  EXPECT_GT(device["fp32_gflops"], 0.1);
  EXPECT_GT(device["start_s"], 0);
  std::vector<std::string> engines;
  for (const Json& engine : report["steps"][3]["figures"]["engines"]) engines.push_back(engine["engine"]);
  EXPECT_EQ(std::vector<std::string>(engines.begin(), engines.begin() + 2), (std::vector<std::string>{"shm", "tcp"}));
  EXPECT_EQ(report["steps"][4]["figures"]["named"], "rank 1");
  EXPECT_LT(report["steps"][5]["figures"]["ranks"]["torch::optim::SGD"], 1e-4);
}

TEST(Doctor, TrainsAndComparesAsAUserDoes) {
  const ProgramEnd end =
      run_command({"doctor", "--steps", "training,trainer", "--size", "small"}, "", {{"CUDA_VISIBLE_DEVICES", ""}});
  if (says(end.out, "there is no program")) GTEST_SKIP() << "lockstep-bench is not built";
  ASSERT_EQ(end.code, 0) << end.out << end.err;
  EXPECT_TRUE(says(end.out, "lockstep 2 x fp32: ")) << end.out;
  EXPECT_TRUE(says(end.out, "2 ranks trained, evaluated and saved a model")) << end.out;
}

StepFigures find_a_fault(const DoctorOptions& /*options*/) {
  throw Error("the fan stands still", "this host", "oil it");
}
std::string applies(const DoctorOptions& /*options*/) { return ""; }
std::string applies_elsewhere(const DoctorOptions& /*options*/) { return "it needs a fan"; }

TEST(Doctor, SaysWhatFailedAndWhatToDo) {
  const DoctorOptions options;
  const std::vector<DoctorStepEnd> ends{run_step({"fan", "", &applies, &find_a_fault}, options),
                                        run_step({"blades", "", &applies_elsewhere, &find_a_fault}, options)};
  EXPECT_TRUE(has_failed(ends));
  std::ostringstream out;
  for (const DoctorStepEnd& end : ends) print_end(end, out);
  print_summary(ends, out);
  EXPECT_TRUE(says(out.str(), "fan       failed      0.0  the fan stands still\n")) << out.str();
  EXPECT_TRUE(says(out.str(), "blades    skipped     0.0  it needs a fan\n")) << out.str();
  EXPECT_TRUE(says(out.str(), "fan failed: the fan stands still\n  where: this host\n  fix: oil it\n")) << out.str();
  const auto report = doctor_json(ends, options);
  EXPECT_EQ(report["passed"], false);
  EXPECT_EQ(report["steps"][0]["fix"], "oil it");
}

TEST(Doctor, EndsProcessesThatFailOrHang) {
  try {
    run_with_limit("echo before; exit 3", 10);
    FAIL() << "it has failed";
  } catch (const Error& error) {
    EXPECT_EQ(error.happened(), "a process failed with code 3:\nbefore\n");
  }
  try {
    run_with_limit("echo begun; sleep 60", 1);
    FAIL() << "it has not ended";
  } catch (const Error& error) {
    EXPECT_TRUE(says(error.happened(), "the step had not ended after 1 s. It wrote:\nbegun")) << error.what();
  }
}

TEST(Doctor, RefusesStepsThatItDoesNotHave) {
  const ProgramEnd end = run_command({"doctor", "--steps", "heart"});
  EXPECT_EQ(end.code, 2);
  EXPECT_TRUE(says(end.err, "heart")) << end.err;
}

}  // namespace
}  // namespace lockstep
