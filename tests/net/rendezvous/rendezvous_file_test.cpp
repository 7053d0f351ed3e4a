// Tests ranks that meet at a file.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

#include "lockstep/net/rendezvous.h"
#include "lockstep/net/server/store_server.h"
#include "tests/net/child_process.h"
#include "tests/net/net_fixtures.h"
#include "tests/net/rendezvous/rendezvous_ranks.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using testing::all_ranks;
using testing::ChildProcess;
using testing::error_of;
using testing::exchange;
using testing::expect_complete;
using testing::kSecret;
using testing::meet;
using testing::options_for;
using testing::rank_arguments;

TEST(RendezvousTest, RanksMeetAtAFileOneJobAfterTheOther) {
  const TemporaryFolder folder;
  const std::string path = folder / "meeting";
  for (int job = 0; job < 3; ++job) {
    expect_complete(meet(all_ranks("file://" + path, 3)));
    EXPECT_FALSE(std::filesystem::exists(path));
  }
}

TEST(RendezvousTest, TheFileIsForThisUserAlone) {
  const TemporaryFolder folder;
  const std::string path = folder / "meeting";
  std::ofstream(path).close();  // created before, and readable by others
  ::chmod(path.c_str(), 0644);
  const auto outcomes = meet(all_ranks("file://" + path, 2), false);
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
  std::stringstream content;
  content << std::ifstream(path).rdbuf();
  EXPECT_NE(content.str().find("unix:" + path + ".socket"), std::string::npos) << content.str();
}

TEST(RendezvousTest, AFileThatACrashedJobLeftIsNoTrouble) {
  const TemporaryFolder folder;
  const std::string path = folder / "meeting";
  {
    ChildProcess rank_0("one_rank", {"file://" + path, "0", "2", "60000", "stay"});
    ASSERT_TRUE(testing::eventually([&] { return std::filesystem::exists(path); }));
    ASSERT_TRUE(testing::eventually([&] { return std::filesystem::file_size(path) > 0; }));
    rank_0.signal(SIGKILL);
    rank_0.wait();
  }
  ASSERT_TRUE(std::filesystem::exists(path + ".socket"));
  expect_complete(meet(all_ranks("file://" + path, 2)));
}

TEST(RendezvousTest, AFileThatPointsToAnothersStoreIsNoTrouble) {
  const TemporaryFolder folder;
  const std::string path = folder / "meeting";
  const StoreServer other(SocketAddress::tcp("127.0.0.1", 0), kSecret);  // uses the address of the crashed job's store
  std::ofstream(path) << "lockstep rendezvous 1\n" << other.address().text() << "\nwhat the crashed job's secret was\n";
  ::chmod(path.c_str(), 0600);
  std::thread rank_1([&] { exchange(rendezvous(options_for("file://" + path, 1, 2))); });
  exchange(rendezvous(options_for("file://" + path, 0, 2)));
  rank_1.join();
}

TEST(RendezvousTest, TwoProcessesOfRank0AtAFileAreNamedToBoth) {
  const TemporaryFolder folder;
  const std::string path = folder / "meeting";
  ChildProcess first("one_rank", rank_arguments("file://" + path, "0", "2"));
  ASSERT_TRUE(
      testing::eventually([&] { return std::filesystem::exists(path) && std::filesystem::file_size(path) > 0; }));
  const std::string text = error_of([&] { rendezvous(options_for("file://" + path, 0, 2)); });
  EXPECT_EQ(first.wait(), 1);
  for (const std::string& told : {text, first.output()}) {
    EXPECT_NE(told.find("two processes claim rank 0"), std::string::npos) << told;
    EXPECT_NE(told.find("process " + std::to_string(::getpid())), std::string::npos) << told;
  }
}

TEST(RendezvousTest, AFileWithoutRank0IsNamed) {
  const TemporaryFolder folder;
  RendezvousOptions options = options_for("file://" + folder.path() + "/meeting", 1, 2);
  options.timeout = milliseconds(100);
  const std::string text = error_of<TimeoutError>([&] { rendezvous(options); });
  EXPECT_NE(text.find(folder / "meeting"), std::string::npos) << text;
  options.init_method = "file:///no/such/folder/meeting";
  options.rank = 0;
  EXPECT_NE(error_of([&] { rendezvous(options); }).find("/no/such/folder"), std::string::npos);
}

}  // namespace
}  // namespace lockstep
