#include "lockstep/data/images/mnist_download.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "lockstep/base/files/atomic_file.h"
#include "lockstep/data/mnist.h"
#include "lockstep/hub/fetch_url.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

const std::string kShared = std::filesystem::weakly_canonical(LOCKSTEP_SHARED_DATA);
constexpr std::chrono::seconds kDownloadPatience{60};

std::string file_url(const std::string& path) { return "file://" + path; }
bool curl_is_there() { return std::system("curl --version >/dev/null 2>&1") == 0; }

int files_in(const std::string& folder) {
  return static_cast<int>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

class Download : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!curl_is_there()) GTEST_SKIP() << "no curl";
  }
  void get(const std::string& name, const std::string& mirror) {
    download_dataset(name, folder_.path(), mirror, [this](const std::string& line) { report_ += line + "\n"; });
  }
  TemporaryFolder folder_;
  std::string report_;
};

TEST_F(Download, FetchesChecksAndKeepsTheOriginals) {
  if (!std::filesystem::is_directory(kShared + "/mnist")) GTEST_SKIP() << kShared << "/mnist is not there";
  get("mnist", file_url(kShared + "/mnist"));
  EXPECT_NE(report_.find("train-images-idx3-ubyte.gz: downloaded, 9912422 bytes"), std::string::npos) << report_;
  EXPECT_EQ(files_in(folder_.path()), 4);
  EXPECT_EQ(mnist(folder_.path(), Split::Test)->size(), 10000);

  write_file_atomically(folder_ / "t10k-labels-idx1-ubyte.gz", "damaged");
  report_.clear();
  get("mnist", file_url(kShared + "/mnist"));
  EXPECT_NE(report_.find("train-images-idx3-ubyte.gz: already there"), std::string::npos) << report_;
  EXPECT_NE(report_.find("t10k-labels-idx1-ubyte.gz: downloaded"), std::string::npos) << report_;
}

TEST_F(Download, KeepsNothingOfAWrongFile) {
  const TemporaryFolder mirror;
  write_file_atomically(mirror / "train-images-idx3-ubyte.gz", "not the images");
  expect_error("14 bytes with SHA-256 ", [&] { get("mnist", file_url(mirror.path())); });
  expect_error("could not be downloaded", [&] { get("mnist", file_url(mirror.path())); });
  write_file_atomically(mirror / "train-images-idx3-ubyte.gz", std::string(9912423, 'x'));
  expect_error("more than the 9912422 expected bytes arrived", [&] { get("mnist", file_url(mirror.path())); });
  EXPECT_EQ(files_in(folder_.path()), 0);
}

TEST_F(Download, SaysWhyAMirrorFailed) {
  expect_error("curl: (", [&] { get("mnist", file_url(folder_ / "absent")); });
  expect_error("`lockstep data digits`, which generates digits", [&] { get("mnist", file_url(folder_ / "absent")); });
  expect_error("ftp", [&] { get("mnist", "ftp://localhost/mnist"); });
  EXPECT_EQ(files_in(folder_.path()), 0);
}

TEST_F(Download, KnowsItsDatasets) {
  expect_error("there is no dataset \"cifar\" to download", [&] { get("cifar", ""); });
  expect_error("mnist, fashion-mnist", [&] { get("cifar", ""); });
}

TEST(FetchUrl, EndsAtItsDeadline) {
  if (!curl_is_there()) GTEST_SKIP() << "no curl";
  const TemporaryFolder folder;
  ASSERT_EQ(std::system(("mkfifo " + (folder / "fifo")).c_str()), 0);  // no process ever writes to it
  EXPECT_THROW(fetch_url(file_url(folder / "fifo"), 10, Deadline::after(std::chrono::milliseconds(50))), TimeoutError);
}

TEST(FetchUrl, SaysThatCurlIsMissing) {
  const char* path = std::getenv("PATH");
  const std::string before = path == nullptr ? "" : path;
  const TemporaryFolder empty;
  ::setenv("PATH", empty.path().c_str(), 1);
  expect_error("install curl", [] { fetch_url("file:///etc/hostname", 100, Deadline::after(kDownloadPatience)); });
  ::setenv("PATH", before.c_str(), 1);
}

}  // namespace
}  // namespace lockstep
