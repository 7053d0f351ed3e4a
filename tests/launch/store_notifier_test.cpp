#include "lockstep/launch/nodes/store_notifier.h"

#include <gtest/gtest.h>

#include <future>
#include <string>

namespace lockstep {
namespace {

Deadline in_an_hour() { return Deadline::after(std::chrono::hours(1)); }

TEST(StoreNotifier, WritesInOrder) {
  std::string written;
  StoreNotifier notifier;
  for (const char* word : {"a", "b", "c"}) notifier.post([&written, word] { written += word; });
  EXPECT_TRUE(notifier.wait_until_done(in_an_hour()));
  EXPECT_EQ(written, "abc");
}

TEST(StoreNotifier, ALaterMessageHoldsUpNoOther) {
  bool is_written = false;
  std::string written;
  {
    StoreNotifier notifier;
    notifier.post_later(in_an_hour(), [&] { is_written = true; });
    notifier.post([&] { written += "now"; });
    EXPECT_TRUE(notifier.wait_until_done(in_an_hour()));
    EXPECT_EQ(written, "now");
  }
  EXPECT_FALSE(is_written) << "it was not due when the notifier ended";
}

TEST(StoreNotifier, WritesALaterMessageWhenItIsDueUnlessItWasDropped) {
  std::promise<void> first, second;
  StoreNotifier notifier;
  notifier.post_later(Deadline::after(std::chrono::milliseconds(1)), [&] { first.set_value(); });
  first.get_future().wait();
  bool is_dropped = true;
  notifier.post_later(in_an_hour(), [&] { is_dropped = false; });
  notifier.drop_later_messages();
  notifier.post_later(Deadline::after(std::chrono::milliseconds(1)), [&] { second.set_value(); });
  second.get_future().wait();
  EXPECT_TRUE(is_dropped);
}

}  // namespace
}  // namespace lockstep
