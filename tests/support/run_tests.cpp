#include "tests/support/run_tests.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

// Test programs do not wait for the disk: an fsync takes 6 ms there, and many tests write thousands of files.
// tests/checkpoint/fault_test.cpp loses what is not synced, on a file system of its own. `scripts/test --long` waits.
extern "C" int fsync(int fd) {
  if (std::getenv("LOCKSTEP_LONG_TESTS") != nullptr) return static_cast<int>(::syscall(SYS_fsync, fd));
  return ::fcntl(fd, F_GETFD) < 0 ? -1 : 0;
}

namespace lockstep::testing {
namespace {

/// Keeps the name of the test that runs in a file.
class RunningTestFile : public ::testing::EmptyTestEventListener {
 public:
  explicit RunningTestFile(const std::filesystem::path& results)
      : results_(results), running_(std::filesystem::path(results).replace_extension(".running")) {}

  void OnTestProgramStart(const ::testing::UnitTest& /*program*/) override {
    std::error_code ignored;
    if (results_.has_parent_path()) std::filesystem::create_directories(results_.parent_path(), ignored);
    std::filesystem::remove(results_, ignored);
    write("(before the first test)");
  }
  void OnTestSuiteStart(const ::testing::TestSuite& suite) override {
    write(suite.name() + std::string(" (setting up)"));
  }
  void OnTestStart(const ::testing::TestInfo& test) override {
    write(test.test_suite_name() + std::string(".") + test.name());
  }
  void OnTestProgramEnd(const ::testing::UnitTest& /*program*/) override {
    std::error_code ignored;
    std::filesystem::remove(running_, ignored);
  }

 private:
  void write(const std::string& name) const { std::ofstream(running_) << name << '\n'; }

  std::filesystem::path results_;
  std::filesystem::path running_;
};

}  // namespace

int run_tests(int* argc, char** argv) {
  ::testing::InitGoogleTest(argc, argv);
  const std::string xml = "xml:";
  const std::string output = GTEST_FLAG_GET(output);
  if (output.rfind(xml, 0) == 0) {
    ::testing::UnitTest::GetInstance()->listeners().Append(new RunningTestFile(output.substr(xml.size())));
  }
  const int status = RUN_ALL_TESTS();
  if (::testing::UnitTest::GetInstance()->test_to_run_count() > 0) return status;
  std::fprintf(stderr, "No test matches the filter '%s'; --gtest_list_tests lists all.\n",
               GTEST_FLAG_GET(filter).c_str());
  return 1;
}

}  // namespace lockstep::testing
