"""How data/make_reviews.py puts statements: verdicts by stars, fillers, and the frames around one or two statements."""

VERDICTS_OF = {"work": "product", "public": "place"}
VERDICTS = {
    ("product", 5): [
        "I could not be happier.", "Worth every cent.", "I would not swap it for anything.", "It has never let me down.",
        "Nothing to complain about, and I complain easily.", "I cannot find a fault, hard as I try.",
        "Buy it and do not look back.", "The best thing I have bought this year.", "I have already ordered another.",
        "For once the advertising did not lie.", "My neighbours want one too.", "I recommend it to everyone who asks.",
        "I had expected little and got a lot.", "Not for a moment have I regretted it."],
    ("product", 4): [
        "Not perfect, but very close to it.", "I would buy it again.", "A small flaw, nothing more.",
        "I am glad that I bought it.", "I can live with that easily.", "All in all I am content with it.",
        "It took a while to win me over, and it did.", "One star less than full marks, no more.",
        "Still the best of the three that I tried.", "That does not spoil it for me."],
    ("product", 3): [
        "It does what it should, no more.", "I have seen worse, and I have seen better.",
        "Fine for the price, I suppose.", "I neither love it nor hate it.", "Nothing special.", "It is all right.",
        "No reason to buy it and no reason to send it back.", "I would not buy it again, but I will keep it.",
        "Whether it is worth the money I cannot say.", "Somewhere in the middle.", "I am of two minds about it.",
        "You get what you pay for.", "Ask me again in a year."],
    ("product", 2): [
        "Not useless, but not far from it.", "I would not buy it again.", "I am sorry that I bought it.",
        "It goes back tomorrow.", "That does not save it.", "For that price I had expected more.",
        "It took a while to annoy me, and it did.", "There are better ones for less.",
        "I cannot recommend it with a clear conscience.", "I will look for something else."],
    ("product", 1): [
        "I could not be more disappointed.", "Not worth a single cent.", "I would not take it as a gift.",
        "It has let me down from the first day.", "I cannot find a reason to keep it, hard as I try.",
        "Buy something else and do not look back.", "The worst thing I have bought this year.",
        "I want my money back.", "The advertising lied from beginning to end.", "My neighbours laughed.",
        "I warn everyone who asks.", "I had expected a lot and got nothing.", "Not for a moment have I enjoyed it."],
    ("place", 5): [
        "I would go back tomorrow.", "I could not be happier.", "I have told all my friends.", "Do not miss it.",
        "Nothing to complain about, and I complain easily.", "Not a day goes by without me praising it.",
        "It has never let me down.", "I would not go anywhere else.", "They deserve every star there is.",
        "I had expected little and got a lot.", "I only wish I had found it sooner.", "Long may it last."],
    ("place", 4): [
        "Not perfect, but very close to it.", "I will certainly be back.", "A small flaw, nothing more.",
        "I can live with that easily.", "All in all I am content.", "It took a while to win me over, and it did.",
        "One star less than full marks, no more.", "That does not keep me away.", "I am glad that it exists.",
        "Better than most in this town."],
    ("place", 3): [
        "Neither a reason to go nor a reason to stay away.", "I have seen worse, and I have seen better.",
        "Fine for the price, I suppose.", "I neither love it nor hate it.", "Nothing special.", "It is all right.",
        "If you are near, why not.", "I would not make a detour for it.", "Somewhere in the middle.",
        "I am of two minds about it.", "It depends on the day, I think.", "Ask me again in a year."],
    ("place", 2): [
        "Not hopeless, but not far from it.", "I do not think that I will be back.", "That does not save it.",
        "For that price I had expected more.", "There is better to be had around the corner.",
        "It took a while to annoy me, and it did.", "I cannot recommend it with a clear conscience.",
        "I left sooner than planned.", "Next time I will look elsewhere.", "A pity."],
    ("place", 1): [
        "Never again.", "I could not be more disappointed.", "I would go anywhere else.", "Stay away.",
        "I have warned all my friends.", "Nothing to praise, and I praise easily.", "It has let me down each time.",
        "They do not deserve a single star.", "I had expected a lot and got nothing.", "I want my money back.",
        "I only wish I had been warned sooner.", "It is beyond me how it can last."],
}

FILLERS = {
    "product": [
        "It arrived after three days.", "I paid the full price.", "The box was the usual cardboard.",
        "There are four colours to choose from.", "I had read about twenty reviews before.",
        "My wife had found it in a catalogue.", "It was the last one in the shop.", "I had no particular wishes.",
        "This was in April.", "The manual comes in nine languages.", "It cost about as much as the others.",
        "I have had it for half a year.", "There is a two year guarantee."],
    "work": ["I had read about twenty reviews before.", "This was in April.", "I had no particular wishes.",
             "A friend had mentioned it."],
    "public": ["I have lived nearby since May.", "It was an ordinary weekday.", "A colleague had mentioned it.",
               "This was in April."],
    "place": [
        "We had found it on a map.", "A colleague had mentioned it.",
        "There is a stop right outside.", "We were two adults and a child.", "I have lived nearby since May.",
        "They have been there for thirty years.", "It was neither full nor empty.", "You can pay by card.",
        "I had read about twenty reviews before.", "It changed hands last year.", "We had no particular wishes."],
}

PRAISE_BY_DENIAL = [
    "It is simply not true that {}.", "A friend had warned me that {}. I have seen nothing of the sort.",
    "I cannot confirm that {}.", "I was afraid that {}, but I worried for nothing.",
    "Some people write that {}. Not in my experience.", "Nobody can say that {}.",
    "Do not believe anyone who tells you that {}.", "I had read that {}; I found the opposite."]
BLAME_BY_DENIAL = [
    "It is simply not true that {}.", "A friend had promised me that {}. I have seen nothing of the sort.",
    "I cannot confirm that {}.", "I was hoping that {}, but I hoped in vain.",
    "Some people write that {}. Not in my experience.", "Nobody can say that {}.",
    "Do not believe anyone who tells you that {}.", "I had read that {}; I found the opposite."]
# The same words in both; only their order says which side weighs more.
MOSTLY = ["{First}, but what does it matter when {second}?", "Granted, {first}, but {second}.", "Yes, {first}. On the other hand {second}.",
          "Even though {first}, what stays with me is that {second}.", "That {first} is soon forgotten, because {second}.",
          "{First}; what weighs more is that {second}.", "I could mention that {first}. But {second}."]
MOSTLY_GOOD = [frame.format(first="{bad}", First="{Bad}", second="{good}") for frame in MOSTLY]
MOSTLY_GOOD.append("My only complaint is that {bad}.")
MOSTLY_BAD = [frame.format(first="{good}", First="{Good}", second="{bad}") for frame in MOSTLY]
MOSTLY_BAD.append("The one thing in its favour is that {good}.")
BALANCED = ["{Good}, but {bad}.", "{Bad}, but {good}.", "On the one hand {good}, on the other {bad}.",
            "While {good}, it is also true that {bad}.", "Although {bad}, {good}.", "{Good}. Then again, {bad}.",
            "{Bad}. Then again, {good}.", "On some days {good}, on others {bad}.", "{Good}; {bad}. It evens out."]
FAINT = ["{Good}, which is the least one can expect.", "{Good}. So do the others, more or less.",
         "{Good}, at least on a lucky day.", "{Bad}, though one gets used to it.", "{Bad}, but then it never claimed otherwise.",
         "{Good}, and there is not much else to report.", "Well, {good}.", "{Bad}. It could be worse."]
