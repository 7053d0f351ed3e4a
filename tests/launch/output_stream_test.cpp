#include "lockstep/launch/process/output_stream.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace lockstep {
namespace {

// The text that `act` makes this process write to its stderr.
template <typename Act>
std::string stderr_of(Act act) {
  ::testing::internal::CaptureStderr();
  act();
  return ::testing::internal::GetCapturedStderr();
}

TEST(OutputStream, NamesTheRankAndTheFileThatCannotBeWritten) {
  EventLoop loop;
  OutputStream::Targets targets;
  targets.file = UniqueFd(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  ASSERT_TRUE(targets.file);
  targets.name = "stderr of rank 3, /logs/attempt_0/1/stderr.log,";
  OutputStream stream(loop, std::move(targets));
  const std::string text = stderr_of([&] {
    for (int line = 0; line < 2; ++line) {
      EXPECT_EQ(::write(stream.write_end(), "hello\n", 6), 6);
      stream.drain();
    }
    stream.finish();
  });
  EXPECT_NE(text.find("stderr of rank 3, /logs/attempt_0/1/stderr.log, cannot be written any more: No space left"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("cannot", text.find("cannot") + 1), std::string::npos) << "said once:\n" << text;
  EXPECT_EQ(stream.tail().last_lines(2), (std::vector<std::string>{"hello", "hello"}))
      << "the rank's end is still known";
}

}  // namespace
}  // namespace lockstep
