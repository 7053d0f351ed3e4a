#include "lockstep/launch/elastic/rules/host_table.h"

#include <gtest/gtest.h>

#include "tests/launch/coordinator_job.h"

namespace lockstep {
namespace {

using std::chrono::seconds;

HostTable::Host host_of_table(const std::string& id) {
  HostTable::Host host;
  host.entry = CoordinatorJob::entry(id, 1, 4, 0);
  return host;
}

/// The hosts "a" (which serves), "b" and so on, all of one generation.
HostTable table_of(const std::string& ids) {
  HostTable table(CoordinatorJob::entry("a", 1, 4, 0));
  for (const char id : ids) {
    HostTable::Host& host = table.add(host_of_table(std::string(1, id)));
    host.placed = host.is_member = true;
  }
  return table;
}

TEST(HostTable, BeginsWithTheServingHostWheneverItComes) {
  const HostTable table = table_of("bca");
  EXPECT_EQ(table.names(), "host-a, host-b, host-c");
  EXPECT_EQ(table.places().front().id, "a");
}

TEST(HostTable, NamesALauncherByItsProcessIfItSharesItsHost) {
  HostTable table = table_of("ab");
  HostTable::Host other = host_of_table("c");
  other.entry.name = "host-b";
  other.entry.pid = 7;
  EXPECT_EQ(table.name_of(table.find("b")->entry), "host-b");
  EXPECT_EQ(table.name_of(table.add(other).entry), "host-b (pid 7)");
}

TEST(HostTable, NamesSixteenHostsAndCountsTheRest) {
  const HostTable table = table_of("abcdefghijklmnopqr");
  EXPECT_NE(table.names().find("host-p and 2 more"), std::string::npos) << table.names();
}

TEST(HostTable, TakesARequestOnce) {
  HostTable::Host host = host_of_table("a");
  EXPECT_TRUE(host.note_request(1));
  EXPECT_FALSE(host.note_request(1));
  EXPECT_TRUE(host.note_request(2));
}

TEST(HostTable, MayBeCutOffIfMoreHostsAreSilentThanAreHere) {
  const HostTable::Time now{};
  HostTable table = table_of("abcd");
  for (const std::string id : {"b", "c"}) {
    table.give_up(*table.find(id), "it was silent", true, now);
    table.remove(id);
  }
  EXPECT_FALSE(table.may_be_cut_off(now, seconds(15))) << "half of the hosts keep it";
  table.give_up(*table.find("d"), "it was silent", true, now);
  EXPECT_TRUE(table.may_be_cut_off(now + seconds(30), seconds(15)));
  EXPECT_FALSE(table.may_be_cut_off(now + seconds(31), seconds(15))) << "they would have taken over by now";
  table.forget_silence("b");
  table.forget_silence("c");
  EXPECT_FALSE(table.may_be_cut_off(now, seconds(15)));
}

TEST(HostTable, TakesAHostBackOnce) {
  HostTable table = table_of("ab");
  table.give_up(*table.find("b"), "it was silent", true, HostTable::Time{});
  const HostTable::Host lost = table.remove("b");
  EXPECT_TRUE(lost.is_gone);
  const auto back = table.take_back("b");
  ASSERT_TRUE(back);
  EXPECT_FALSE(back->host.is_gone) << "it gets the order to join again";
  EXPECT_EQ(back->story, "it was silent");
  EXPECT_FALSE(table.take_back("b"));
}

}  // namespace
}  // namespace lockstep
