#!/usr/bin/env python3
"""Writes the little stories that the demo model learns from.

    stories.py --count 5 --seed 1          # print some
    stories.py --count 5 --seed 1 --held-out

A story is one of the plots below with its blanks filled in.  A plot is a list of steps, a step is a list of
ways to say the same thing, and everything that must stay the same through a story (who it is about, what was
lost, who helped) is drawn once, before the first sentence.  Heroes and helpers have names and kinds from
separate lists, so that the two can never be mixed up.

One in ten combinations of a hero's name and kind is held out: it appears in no training story.  The same seed
gives the same stories with every version of Python 3.
"""

import argparse
import random
import re
import zlib

HEROES_F = "Lily Mina Rosa Tilda Nell Ivy Clara Poppy Daisy Hazel Emma Luna Ada".split()
HEROES_M = "Tom Ben Pip Milo Oscar Finn Jasper Hugo Otto Leo Max Sam Theo".split()
HELPERS_F = "Greta Martha Olga Bess Dora Ruth Agnes Flora Edith Vera".split()
HELPERS_M = "Bruno Walter Gus Albert Edgar Rufus Henry Boris Felix Arthur".split()

HERO_KINDS = ["rabbit", "fox", "mouse", "bear", "hedgehog", "squirrel", "frog", "otter", "badger", "kitten",
              "puppy", "lamb", "duckling", "child"]
FLIERS = ["owl", "crow", "robin", "heron", "swallow"]
WALKERS = ["tortoise", "donkey", "horse", "goat", "cow", "ox"]
SWIMMERS = ["beaver", "swan", "goose", "toad"]
DIGGERS = ["mole", "marmot"]
ANYONE = FLIERS + WALKERS + SWIMMERS + DIGGERS

TRAITS = ["curious", "shy", "brave", "cheerful", "clever", "gentle", "lively", "patient", "quiet", "kind", "eager",
          "honest", "dreamy", "busy"]
HOMES = ["in a small house by the river", "at the edge of the forest", "under the roots of an old oak",
         "on a green hill above the village", "near the old water mill", "in a cottage with a blue door",
         "behind the miller's garden", "beside a quiet pond", "at the end of a long lane", "in a warm nest of straw"]
COLOURS = ["red", "blue", "green", "yellow", "orange", "white", "silver", "purple"]
WEATHERS = ["sunny", "windy", "cool", "bright", "misty", "warm"]
TIMES = ["morning", "afternoon"]

OPENINGS = [
    "Once upon a time there was a~ {trait} {kind} named {N}. {He} lived {home}.",
    "Once upon a time there was a~ {kind} named {N} who lived {home}. {N} was very {trait}.",
    "There once was a~ little {kind} named {N}. {He} lived {home}, and everybody knew that {he} was {trait}.",
    "A~ {trait} {kind} named {N} lived {home}.",
    "{N} was a~ {kind}. {He} was small and {trait}, and {he} lived {home}.",
    "Long ago a~ little {kind} named {N} lived {home}. {N} was {trait}.",
    "In a land of rivers and hills lived a~ {trait} {kind} named {N}.",
]

# What a person may ask for; the story follows as the answer.
REQUESTS = [
    "Tell me a story about a~ {kind} named {N}.", "Please write a story about {N} the {kind}.",
    "Tell me a story.", "I would like a story about a~ {trait} {kind}.", "Write a short story about a~ {kind}.",
    "Can you tell me a story about {N}?",
]

# Endings that fit any plot in which a helper took part; {H} is the helper.
ENDINGS = [
    "From that day on {N} and {H} were the best of friends.",
    "That night {N} fell asleep with a smile, and so did {H}.",
    "\"Thank you, {H},\" said {N}. \"Come again tomorrow.\" And {H} did.",
    "And whenever {N} met {H} after that, they laughed and told the story again.",
    "{N} never forgot what {H} had done, and {H} never forgot {N}.",
    "\"What a day,\" said {H}. \"The best of all days,\" said {N}.",
    "Then the moon came up over the river, and {N} and {H} walked home together.",
]

PLOTS = {}


def plot(name, helpers, blanks, *steps):
    """blanks: a name or a tuple of names -> what it can be; a tuple's members are drawn together."""
    PLOTS[name] = (helpers, blanks, steps)


plot("lost thing", ANYONE,
     {("thing", "use"): [("scarf", "wore it"), ("drum", "played it"), ("book", "read it"), ("ball", "played with it"),
                         ("whistle", "blew it"), ("hat", "wore it"), ("toy boat", "played with it"), ("umbrella", "carried it")],
      "colour": COLOURS,
      ("spot1", "spot2"): [("under the bed", "behind the door"), ("in the garden", "by the gate"),
                           ("in the tall grass", "under the bridge"), ("beside the well", "behind the barn")],
      "found": ["under a bush", "on the mill steps", "between two stones", "in a heap of leaves", "at the foot of a tree"]},
     ["{N} had a~ {colour} {thing}. {He} loved it and {use} every day.",
      "The thing {N} loved most was a~ {colour} {thing}. {He} {use} every day."], "\n\n",
     ["One {time} the {thing} was gone.", "But one {weather} {time} {N} could not find the {thing}.",
      "Then, one {time}, the {colour} {thing} was lost."],
     ["{He} looked {spot1}, but it was not there. {He} looked {spot2}, but it was not there.",
      "{N} looked {spot1}. No {thing}. {He} looked {spot2}. No {thing}."],
     ["{N} sat down and began to cry.", "{N} felt very sad.", "{N} did not know where else to look."],
     ["Just then a~ {hkind} named {H} came by. \"Why are you so sad?\" asked {H}.",
      "A~ {hkind} named {H} saw {him}. \"What is the matter?\" asked {H}."],
     ["\"I have lost my {colour} {thing},\" said {N}.", "\"My {thing} is gone,\" said {N}. \"It is {colour}, and I love it.\""],
     ["\"Two can look better than one,\" said {H}.", "\"Then let us look together,\" said {H}."], "\n\n",
     ["They went along the path, and soon {H} saw something {colour} {found}. It was the {thing}!",
      "They looked everywhere. At last {N} saw something {colour} {found}. \"My {thing}!\" {he} cried."],
     ["{N} hugged {H} and danced for joy.", "{N} was so happy that {he} let {H} have the {thing} for a whole day.", ""])

plot("kite in the tree", FLIERS,
     {"colour": COLOURS, ("thing", "flew"): [("kite", "flew it"), ("balloon", "took it for a walk"), ("paper bird", "let it fly")],
      "tree": ["oak", "willow", "pine", "elm", "apple tree"]},
     ["For {his} birthday {N} got a~ {colour} {thing}.", "{N} had made a~ {colour} {thing} out of paper and string.",
      "One day {his} grandmother gave {N} a~ {colour} {thing}."], "\n\n",
     ["On a~ windy {time} {he} {flew} in the meadow.", "The wind was strong, and {N} {flew} on the hill."],
     ["All at once the string broke. The {thing} flew up and caught in the top of a~ {tree}.",
      "Then a gust of wind took the {thing} and carried it into a~ tall {tree}."],
     ["{N} tried to climb the {tree}, but it was too high.", "{N} jumped and jumped, but {he} could not reach it.",
      "{N} shook the {tree}, but the {thing} did not fall."],
     ["In the {tree} sat a~ {hkind} named {H}. \"Is this yours?\" {hhe} asked.",
      "A~ {hkind} named {H} was flying by. \"Do you need help?\" {hhe} asked."],
     ["\"Yes, please,\" said {N}. \"That is my {thing}, and I have no wings.\"",
      "\"Oh yes,\" said {N}. \"My {colour} {thing} is up there.\""], "\n\n",
     ["{H} spread {hhis} wings, flew up and pulled the {thing} free with {hhis} beak.",
      "{H} flew to the top, took the string in {hhis} beak and brought the {thing} down."],
     ["Then {N} held the string, and {H} flew beside the {thing} until evening.",
      "\"Now let us play,\" said {N}, and all day {H} and the {thing} flew side by side."])

plot("shared rain", ANYONE,
     {"colour": COLOURS, ("cover", "under"): [("umbrella", "under it"), ("raincoat", "under it"), ("leaf", "under it")],
      "where": ["to the market", "to school", "to visit {his} aunt", "to the mill for flour"],
      "treat": ["hot soup", "warm milk", "honey cake", "apple tea"]},
     ["One {time} {N} went {where}.", "One day {N} had to go {where}."],
     ["{He} took a~ big {colour} {cover} along, because the sky was grey.",
      "The clouds were dark, so {he} took a~ big {colour} {cover}."], "\n\n",
     ["Soon it began to rain. It rained and rained.", "Then the rain came down, first a little and then a lot."],
     ["By the road stood a~ {hkind} named {H}, wet from head to toe.",
      "Under a bare tree {N} met a~ {hkind} named {H}, who was wet and cold."],
     ["\"I have no {cover},\" said {H}, \"and I am far from home.\"", "\"I did not think it would rain,\" said {H}, and {hhe} sneezed."],
     ["\"Come under my {cover},\" said {N}. \"There is room for two.\"",
      "{N} held up the {colour} {cover}. \"Come {under},\" {he} said. \"It is big enough.\""], "\n\n",
     ["So they walked together, and the rain did not trouble them at all.",
      "Side by side they went on, and they sang to the sound of the rain."],
     ["When they came to the house of {H}, there was {treat} for both of them.",
      "At the door {H} said, \"Come in,\" and gave {N} a big bowl of {treat}."])

plot("missing ingredient", ANYONE,
     {("dish", "need", "have"): [("cake", "eggs", "flour and butter"), ("soup", "carrots", "onions and salt"),
                                 ("pie", "apples", "flour and sugar"), ("porridge", "honey", "oats and milk"),
                                 ("bread", "flour", "water and salt"), ("salad", "nuts", "leaves and berries")],
      "event": ["{his} mother's birthday", "the winter feast", "the harvest feast", "{his} brother's birthday"]},
     ["It was the day of {event}, and {N} wanted to make a~ {dish}.", "{N} wanted to make a~ {dish} for {event}."],
     ["{He} had {have}, but {he} had no {need}.", "In the kitchen there were {have}, but there were no more {need}."], "\n\n",
     ["\"Without {need} there can be no {dish},\" said {N}, and {he} went out to find some.",
      "\"What shall I do without {need}?\" thought {N}. {He} put on {his} shoes and went out."],
     ["{He} met a~ {hkind} named {H}. \"Where are you going so fast?\" asked {H}.",
      "At the gate {he} met {H} the {hkind}. \"You look worried,\" said {H}."],
     ["\"I need {need} for a~ {dish},\" said {N}.", "\"I am making a~ {dish}, and I have no {need},\" said {N}."],
     ["\"I have more {need} than I can eat,\" said {H}, and {hhe} filled a basket.",
      "\"You can have some of mine,\" said {H}, and {hhe} gave {N} a bag of {need}."],
     ["\"Then you must come and eat with us,\" said {N}.", "\"Come with me,\" said {N}, \"and we shall make it together.\""], "\n\n",
     ["They mixed {have} with the {need}, and soon the whole house smelled of {dish}.",
      "They washed and stirred and waited, and in the evening the {dish} was ready."],
     ["Everybody had some, and {H} had some twice.", "It was the best {dish} that anyone had ever tasted.",
      "Not one crumb of the {dish} was left."])

plot("afraid of the dark", ANYONE,
     {"light": ["lantern", "candle", "little lamp"], "sound": ["a tapping at the window", "a soft knock at the door",
                                                             "a rustling in the straw", "a scratching on the roof"]},
     ["{N} was not afraid of anything, except the dark.", "There was only one thing that {N} did not like, and that was the dark.",
      "When the sun went down, {N} was always a little afraid."], "\n\n",
     ["One night {he} heard {sound}.", "One night the wind blew out the {light}, and {N} heard {sound}."],
     ["{He} pulled the blanket over {his} ears. \"Who is there?\" {he} asked.", "\"Is it a monster?\" {he} whispered."],
     ["\"It is only me, {H},\" said a small voice. It was a~ {hkind} who had lost the way.",
      "\"My name is {H},\" said a voice. \"I am a~ {hkind}, and I am afraid of the dark.\""],
     ["{N} lit the {light} and opened the door.", "Quickly {N} lit the {light} and let {H} in."],
     ["\"Come and sit by the {light},\" said {N}. \"I do not like the dark either.\"",
      "\"You too?\" said {N}, and {he} began to laugh. \"Then we can be brave together.\""], "\n\n",
     ["They told each other stories until the {light} burned low.", "They counted the stars through the window, one by one."],
     ["After that the dark did not seem so dark any more.", "And {N} saw that the dark is only the day with its eyes closed.",
      "When the {light} went out, nobody was afraid."])

plot("a seed", ANYONE,
     {("plant", "fruit", "colour"): [("apple tree", "apples", "red"), ("pear tree", "pears", "yellow"), ("plum tree", "plums", "purple"),
                                     ("cherry tree", "cherries", "red"), ("sunflower", "seeds", "yellow"), ("pumpkin plant", "pumpkins", "orange"),
                                     ("bean plant", "beans", "green")],
      "place": ["behind the house", "beside the well", "near the fence", "in the middle of the garden"]},
     ["One spring day {N} found a~ tiny seed on the path.", "In spring a~ {hkind} named {H} gave {N} a~ tiny seed.",
      "In spring {N} traded a button for a~ tiny seed."],
     ["{He} planted it {place} and gave it water every day.", "{He} dug a hole {place}, put the seed in and gave it water."], "\n\n",
     ["Days went by, and nothing came up.", "One week went by, and then another, but there was nothing to see."],
     ["\"It will never grow,\" said {N}.", "\"Maybe it was only a stone,\" said {N} sadly.", "{N} wanted to dig it up and look."],
     ["\"Wait,\" said {H} the {hkind}. \"Good things are slow.\"", "But {H} the {hkind} said, \"Seeds sleep before they wake. Wait a little.\""],
     ["So {N} waited. {He} brought water when it was dry and sang when it was cold.", "So {N} waited and gave it water, day after day."], "\n\n",
     ["Then one {weather} {time} a green leaf came out of the ground. It grew and grew.",
      "And one {time} there it was, a small green leaf, and then two, and then ten."],
     ["In autumn a~ fine {plant} stood {place}, full of {colour} {fruit}.",
      "When autumn came, it was a~ {plant} with many {colour} {fruit}."],
     ["{N} gave the first of the {fruit} to {H}.", "\"The first {fruit} are for you, {H},\" said {N}, \"because you told me to wait.\""])

plot("a boat", SWIMMERS,
     {"stuff": ["an old door", "a wooden tub", "five logs and a rope", "a big basket"], "sail": ["a blanket", "a pillowcase", "an apron", "a tablecloth"],
      "colour": COLOURS, "goal": ["the island", "the other side", "the lighthouse", "the sandy beach"]},
     ["{N} wanted to cross the lake and see {goal}, but {he} could not swim so far.",
      "Every day {N} looked over the lake to {goal} and wished {he} had a boat."], "\n\n",
     ["One {weather} {time} {he} took {stuff} and made a boat.", "So {he} built a boat out of {stuff}."],
     ["For a sail {he} used {sail}, and it was {colour}.", "{He} tied {sail} to a stick, and that was a~ fine {colour} sail."],
     ["At first all went well. But in the middle of the lake the wind stopped.",
      "The boat floated! But far out on the lake the wind went to sleep."],
     ["The {colour} sail hung down, and the boat did not move.", "{N} blew into the {colour} sail, but the boat stood still."],
     ["Then a~ {hkind} named {H} put {hhis} head out of the water. \"Nice boat,\" said {H}. \"Why do you not sail?\"",
      "A~ {hkind} named {H} came swimming by. \"Are you waiting for something?\" asked {H}."],
     ["\"There is no wind,\" said {N}, \"and I want to go to {goal}.\"", "\"I am waiting for the wind,\" said {N}. \"It has to take me to {goal}.\""],
     ["\"Throw me a rope,\" said {H}.", "\"I am stronger than I look,\" said {H}. \"Give me the rope.\""], "\n\n",
     ["{H} pulled the boat all the way to {goal}.", "{H} swam in front and pulled, and soon they came to {goal}."],
     ["There they ate bread and looked at the boat with its {colour} sail.", "They sat there in the sun, and the {colour} sail dried in the warm air."])

plot("fallen bird", ANYONE,
     {"tree": ["oak", "willow", "pine", "elm", "birch"], "help": ["a ladder", "a long rope", "a chair and a box"],
      "soft": ["moss", "wool", "dry leaves", "hay"]},
     ["One {weather} {time} {N} was walking in the forest when {he} heard a small cry.",
      "One {time} {N} heard a thin voice in the grass. \"Help!\" it said."],
     ["Under a~ {tree} lay a baby bird. It had fallen out of the nest.", "It was a baby bird, and it had fallen out of a~ {tree}."],
     ["\"Do not be afraid,\" said {N}, and {he} put the bird on a bed of {soft}.", "{N} made a bed of {soft} and put the little bird in it."], "\n\n",
     ["But the nest was high up, and {N} could not reach it.", "\"How can I put you back?\" {he} asked. \"The {tree} is so tall.\""],
     ["{He} ran to {H} the {hkind}. \"Come quickly,\" {he} said, \"and bring {help}!\"",
      "A~ {hkind} named {H} lived nearby. {N} ran there and asked for help, and {H} brought {help}."],
     ["{H} held {help} still, and {N} climbed up with the bird in {his} cap.",
      "With {help} and with {H} below, {N} climbed up, slowly and carefully."], "\n\n",
     ["{He} put the baby bird back into the nest, and the mother bird sang for joy.", "When the mother bird came back, her little one was safe in the nest."],
     ["Every morning after that the birds of the {tree} sang for {N} and {H}.", "\"You are good neighbours,\" sang the mother bird to {N} and {H}."])

plot("winter scarf", WALKERS + FLIERS,
     {"colour": COLOURS, "thing": ["scarf", "cap", "shawl", "coat"], "where": ["on a branch", "on the fence", "in the snow", "by the frozen pond"]},
     ["That winter was very cold. Snow lay on the roofs, and the pond was ice.", "Winter came, and everything was white and still."],
     ["{N} had wool, and {he} made a~ thick {colour} {thing}. It took {him} seven days.",
      "{N} sat by the fire and made a~ {colour} {thing} out of wool."], "\n\n",
     ["When it was done, {he} put it on and went for a walk.", "Proudly {he} took the new {thing} out into the snow."],
     ["{He} saw a~ {hkind} named {H} sitting {where}. {H} was shaking with cold.",
      "There was a~ {hkind} {where}. It was {H}, and {hhe} was so cold that {hhe} could not speak."],
     ["{N} looked at {his} {thing}. It was so warm and so {colour}. Then {he} took it off.",
      "{N} loved the {colour} {thing}. But {he} thought of {H}, and {he} took it off."],
     ["\"This is for you, {H},\" said {N}.", "\"Take my {thing},\" said {N} to {H}. \"I have a fire at home.\""], "\n\n",
     ["In spring somebody knocked at the door. It was {H}, with a~ big basket of flowers.",
      "When the snow was gone, {H} came to the house and brought the first flowers."],
     ["\"You kept me warm,\" said {H}, \"and now I bring you the spring.\"", "\"The {thing} saved me,\" said {H}. \"I wear it every day.\""])

plot("the mill stops", SWIMMERS + WALKERS,
     {"block": ["a branch", "an old boot", "a big log", "a barrel", "a bundle of reeds"], "miller": ["miller", "old miller", "miller's wife"],
      "gift": ["a loaf of warm bread", "a bag of white flour", "a plum cake", "six sweet rolls"]},
     ["Every day {N} listened to the mill wheel going round and round.", "{N} liked to watch the big mill wheel turn in the water."], "\n\n",
     ["One {time} the wheel stood still.", "One {weather} {time} it was quiet. The wheel did not turn."],
     ["\"No water comes through the gate,\" said the {miller}, \"and without water there is no flour.\"",
      "\"Something is wrong with the water,\" said the {miller}. \"Now nobody can have bread.\""],
     ["{N} ran along the bank to the sluice. {Block} was stuck in the gate.", "{N} went to look. In the sluice gate {he} found {block}, and no water could pass."],
     ["{He} pulled as hard as {he} could, but it did not move.", "{N} pulled and pushed, but {he} was too small."],
     ["{He} called {H} the {hkind}, who was strong.", "Then a~ {hkind} named {H} came along the bank. \"Let me help,\" said {H}."],
     ["\"One, two, three!\" they called, and they pulled together.", "{N} pulled from one side and {H} from the other."], "\n\n",
     ["Out came {block}, and the water rushed through the gate. The wheel began to turn.",
      "At last {block} came loose. The water jumped through the gate, and the wheel turned again."],
     ["The {miller} gave them {gift}, and they ate it by the water.", "\"You have saved the mill,\" said the {miller}, and gave {N} and {H} {gift}."])

plot("learning", ANYONE,
     {("skill", "doing", "did"): [("swim", "swimming", "swam across the pond"), ("whistle", "whistling", "whistled a whole song"),
                                  ("dance", "dancing", "danced all around the meadow"), ("skate", "skating", "skated over the ice"),
                                  ("sing", "singing", "sang so well that the birds stopped to listen"),
                                  ("climb", "climbing", "climbed to the top of the hill"), ("read", "reading", "read a whole book aloud")]},
     ["More than anything {N} wanted to {skill}, but {he} did not know how.", "All the others could {skill}, only {N} could not."], "\n\n",
     ["{He} tried on Monday, and it went wrong. {He} tried on Tuesday, and it went wrong again.",
      "The first time {he} tried, everybody laughed. The second time {he} almost cried."],
     ["\"I shall never learn it,\" said {N}.", "\"I give up,\" said {N}. \"I am too small for {doing}.\""],
     ["A~ {hkind} named {H} heard this. \"Nobody can {skill} on the first day,\" said {H}.",
      "\"Do you know how long I needed?\" asked a~ {hkind} named {H}. \"A whole year.\""],
     ["\"Will you show me?\" asked {N}. \"I will,\" said {H}.", "\"Come,\" said {H}, \"and I will teach you, a little every day.\""],
     ["They met every {time}. {H} showed {him} how to do it, and {N} tried again and again.",
      "Every {time} they worked on it. {N} made mistakes, but they became fewer and fewer."], "\n\n",
     ["And on the last day of summer {N} {did}.", "Then came the day when {N} {did}."],
     ["\"I can {skill}!\" cried {N}. \"I knew you could,\" said {H}.", "Nobody laughed now, and {H} was the first to clap."])

plot("forgotten birthday", ANYONE,
     {"cake": ["a nut cake", "a honey cake", "an apple cake", "a carrot cake", "an orange cake"], "place": ["in the barn", "under the big oak", "behind the mill", "in the garden"],
      "gift": ["a tin drum", "a paper crown", "a wooden horse", "a warm cap", "a new book"]},
     ["Today was the birthday of {N}, but nobody said a word about it.", "It was {his} birthday, and {N} woke up very early."], "\n\n",
     ["{He} met {H} the {hkind}. \"Good morning,\" said {H}. \"I am in a hurry.\" And {hhe} was gone.",
      "{He} went to see a~ {hkind} named {H}. \"I have no time today,\" said {H}, and {hhe} closed the door."],
     ["\"They have all forgotten me,\" thought {N}.", "{N} walked home slowly. \"Nobody thinks of me,\" {he} said."],
     ["In the evening a letter lay at {his} door. \"Come quickly,\" it said, and it was from {H}.",
      "When the sun went down, {H} came back. \"Come with me,\" {hhe} said. \"Somebody needs your help.\""], "\n\n",
     ["{N} ran, and {place} {he} found all {his} friends, with lights and {cake}.",
      "They went along the path, and {place} stood all the friends of {N} around {cake}."],
     ["\"Surprise!\" they called. {H} gave {him} {gift}.", "\"Did you think we had forgotten?\" asked {H}, and gave {him} {gift}."],
     ["{N} laughed and cried at the same time.", "It was the finest birthday {N} had ever had.", "They ate {cake} and danced until late."])

plot("quarrel", ANYONE,
     {("thing", "use"): [("swing", "swing on it"), ("sledge", "ride on it"), ("wagon", "ride in it"), ("seesaw", "sit on it"), ("drum", "play it")],
      "colour": COLOURS},
     ["{N} had a good friend, a~ {hkind} named {H}.", "{N} and {H} the {hkind} did everything together."],
     ["One {weather} {time} they found a~ {colour} {thing} in the barn.", "One day they built a~ {thing} and painted it {colour}."], "\n\n",
     ["\"I want to {use} first,\" said {N}. \"No, me first,\" said {H}.", "\"Let me {use},\" said {N}. \"No, let me,\" said {H}."],
     ["They pulled the {thing} this way and that way, until it broke.", "They shouted, and they both pulled at the {thing}, and then it went crack."],
     ["{H} went home, and {N} went home, and both were angry.", "{N} ran away to the left, and {H} ran away to the right."], "\n\n",
     ["But it is no fun to be alone. In the evening {N} went to {H}. \"I am sorry,\" {he} said.",
      "That night {N} could not sleep. In the morning {he} went to {H}. \"It was my fault,\" {he} said."],
     ["\"I am sorry too,\" said {H}.", "\"It was mine as well,\" said {H}."],
     ["They mended the {colour} {thing} with nails and string, and this time they took turns.",
      "Together they mended the {thing}. It was not as {colour} as before, but there was room for two."])

plot("the race", WALKERS + SWIMMERS + DIGGERS,
     {"prize": ["a silver cup", "a basket of plums", "a golden bell", "a wreath of flowers"], "goal": ["the old bridge", "the mill", "the church", "the top of the hill"],
      "trouble": ["in a ditch", "in the mud", "under a fallen branch", "in a thorn bush"]},
     ["Every summer there was a race to {goal}, and the first one there got {prize}.", "On midsummer day there was a big race. It went all the way to {goal}, and {prize} was the prize."],
     ["{N} had trained for weeks.", "This year {N} wanted to win.", "{N} was the smallest of all the runners."], "\n\n",
     ["\"Go!\" cried the crowd, and {N} ran as fast as {he} could. Soon {he} was in front.", "Off they went. {N} ran and ran, and after a while {he} was ahead of the others."],
     ["Then {he} heard a voice. \"Help! I am stuck,\" it called. It was {H} the {hkind}, {trouble}.",
      "But half way {he} saw a~ {hkind} named {H}, who was stuck {trouble}."],
     ["{N} could see {goal}. {He} could see {prize}. But {he} stopped.", "The others were coming closer. \"If I stop, I lose,\" thought {N}. But {he} stopped."],
     ["{He} pulled and pulled until {H} was free, and all the others ran past.", "While {N} was helping {H}, one runner after another went by."], "\n\n",
     ["{N} and {H} were the last to come to {goal}.", "They came to {goal} last of all, but they came together."],
     ["\"There goes the winner,\" said everybody, and {N} was given {prize} after all.", "When the others heard why, they gave {prize} to {N}."])

plot("letter", FLIERS,
     {"who": ["grandmother", "grandfather", "aunt", "uncle", "cousin"], "far": ["behind the mountains", "by the sea", "on the far side of the forest", "in the big city"],
      "ask": ["come for the summer", "come for the harvest", "tell {him} a story", "come and see the new house"], "gift": ["a shell", "a dried flower", "a feather", "a tiny bell"]},
     ["{N} had a~ {who} who lived far away, {far}.", "Far away, {far}, lived a~ {who} whom {N} loved very much."],
     ["One {weather} {time} {he} took a pen and wrote a letter. In it {he} asked the {who} to {ask}.",
      "So {N} wrote a long letter and asked the {who} to {ask}."], "\n\n",
     ["But who could carry it so far?", "But how could the letter get there?"],
     ["\"I am flying that way,\" said a~ {hkind} named {H}. \"Give it to me.\"", "A~ {hkind} named {H} sat on the roof. \"I know the way,\" said {H}. \"I can take it.\""],
     ["{H} took the letter in {hhis} beak and flew off into the clouds.", "{H} put the letter under {hhis} wing and flew away."],
     ["{N} waited one day, two days, three days.", "Every {time} {N} looked up at the sky and waited."], "\n\n",
     ["Then {H} came back with an answer. In it lay {gift}, and the {who} wrote, \"I am on my way.\"",
      "At last {H} came back with a letter from the {who} and with {gift}. \"I shall be there soon,\" it said."],
     ["{N} read it three times and gave {H} a big plate of cake.", "\"You are the best of all birds,\" said {N} to {H}."])

plot("the bridge", WALKERS + SWIMMERS,
     {"stuff": ["stones", "logs", "planks", "branches"], "other": ["the school", "the market", "the meadow with the best flowers", "the house of {his} aunt"]},
     ["One night there was a big storm, and the river took the bridge away.", "After the spring rain the river was so high that it broke the bridge."],
     ["On the other side was {other}, and {N} could not go there any more.", "Now {N} could not get to {other}, because it was on the other side."], "\n\n",
     ["\"Somebody should build a new bridge,\" said everybody, and went home.", "Everybody looked at the water and shook their heads."],
     ["But {N} went and got {stuff}, one after another.", "But {N} began to carry {stuff} to the river, all alone."],
     ["A~ {hkind} named {H} watched {him}. \"That will take you a year,\" said {H}.", "\"What are you doing?\" asked {H} the {hkind}. \"I am building a bridge,\" said {N}."],
     ["\"Then I shall need a year,\" said {N}, and worked on.", "\"You are very small,\" said {H}. \"Yes,\" said {N}, \"but the {stuff} are small too.\""],
     ["{H} thought for a while. Then {hhe} began to carry {stuff} as well.", "\"Then I shall help you,\" said {H}, and carried twice as many {stuff}."], "\n\n",
     ["The next day others came, and then more, and after a week the bridge was ready.", "Soon the others saw it and came to help, and before the moon was round the bridge was done."],
     ["{N} and {H} were the first to walk over it.", "They wrote two names on it, {N} and {H}."])

plot("found thing", ANYONE,
     {"thing": ["golden key", "silver ring", "purse", "pocket watch", "little bell"], "where": ["on the road", "under the bridge", "beside the well", "in the grass"],
      "reward": ["a jar of honey", "a bag of nuts", "a basket of pears", "a pot of jam"]},
     ["One {weather} {time} {N} found a~ {thing} {where}.", "Something was shining {where}. {N} bent down. It was a~ {thing}!"],
     ["\"How pretty it is,\" thought {N}. \"Should I keep it?\"", "\"Now it is mine,\" thought {N} at first."],
     ["But then {he} thought, \"Somebody is looking for it.\"", "But {he} knew that somebody must be sad about it."], "\n\n",
     ["{He} went from door to door. \"Is this your {thing}?\" {he} asked. \"No,\" said the baker. \"No,\" said the smith.",
      "{He} asked the baker, and {he} asked the smith, but the {thing} was not theirs."],
     ["At the last house lived a~ {hkind} named {H}, and {H} was crying.", "In the evening {he} met a~ {hkind} named {H}, who was looking at the ground."],
     ["\"I have lost my {thing},\" said {H}. \"It was my mother's.\"", "\"What are you looking for?\" asked {N}. \"For my {thing},\" said {H}."],
     ["\"Here it is,\" said {N}, and {he} opened {his} hand.", "{N} smiled and held out the {thing}. \"Is it this one?\""], "\n\n",
     ["{H} was so glad that {hhe} gave {N} {reward}.", "\"You are honest,\" said {H}, and gave {him} {reward}."],
     ["{N} liked it better than any {thing} in the world.", "They ate from it together and talked until dark."])

plot("the wish", FLIERS + DIGGERS,
     {"wish": ["a friend", "somebody to play with", "somebody to talk to"], "hill": ["on the hill", "on the roof", "by the pond", "in the meadow"]},
     ["{N} had a house and a garden and enough to eat, but {he} was often alone.", "{N} had many things, but {he} had nobody to share them with."], "\n\n",
     ["One night {he} sat {hill} and looked at the stars.", "On a~ warm night {N} lay {hill} and watched the sky."],
     ["A star fell from the sky. \"I wish for {wish},\" said {N} quickly.", "Then {he} saw a falling star. {N} closed {his} eyes and wished for {wish}."],
     ["Nothing happened. \"Well,\" said {N}, \"it was only a star.\"", "{He} waited a while, but there was only the wind."], "\n\n",
     ["Then something moved close by. \"Did you see it too?\" asked a voice. It was a~ {hkind} named {H}.",
      "\"That was a fine star,\" said somebody. There sat a~ {hkind} named {H}, looking up."],
     ["\"What did you wish for?\" asked {N}. \"For {wish},\" said {H}. \"And you?\"", "\"I made a wish,\" said {H}. \"I wished for {wish}.\" \"So did I,\" said {N}."],
     ["They looked at each other and laughed.", "Then both of them were quiet, because they were so glad."],
     ["And from then on they watched the stars together, {hill}.", "Since then two have been sitting {hill} when the nights are clear."])

plot("fog", WALKERS + FLIERS,
     {"errand": ["to gather berries", "to look for mushrooms", "to cut reeds", "to pick flowers"], "sound": ["bell", "horn", "flute", "drum"]},
     ["One {time} {N} went out {errand}.", "On a~ {weather} {time} {N} took a basket and went out {errand}."],
     ["{He} went farther than ever before, and nobody was with {him}.", "There was so much to find that {he} went on and on."], "\n\n",
     ["Then the fog came. It was so thick that {N} could not see {his} own feet.", "Suddenly there was fog everywhere, white and cold, and the path was gone."],
     ["{He} called, but nobody answered.", "{He} went to the left and to the right, and then {he} did not know where {he} was."],
     ["Then {he} heard a~ {sound}. It was far away, but it did not stop.", "From far away came the sound of a~ {sound}."],
     ["{N} followed the {sound}, step by step.", "\"Where there is a~ {sound}, there is somebody,\" thought {N}, and followed it."], "\n\n",
     ["At the end of the path stood a~ {hkind} named {H} with the {sound}. \"I saw you go into the fog,\" said {H}.",
      "It was {H} the {hkind}, who stood at the gate with the {sound}. \"I hoped that you would hear me,\" said {H}."],
     ["{N} gave {H} half of all that was in the basket.", "\"How long have you been standing here?\" asked {N}. \"As long as you were gone,\" said {H}."])

plot("sick friend", ANYONE,
     {"brings": ["a pot of soup", "a jar of honey", "a bunch of flowers", "a warm blanket", "a bag of apples"], "ill": ["a cold", "a fever", "a sore throat", "a bad cough"],
      "block": ["the snow was deep", "the rain was heavy", "the wind was strong", "the way was long"]},
     ["{N} had a friend, a~ {hkind} named {H}. They met every {time} at the bridge.", "Every {time} {N} and {H} the {hkind} met at the old bridge to play."], "\n\n",
     ["But one day {H} did not come.", "But one {time} {N} waited and waited, and {H} was not there."],
     ["\"{H} is in bed with {ill},\" said the baker.", "\"Have you not heard?\" said the smith. \"{H} has {ill}.\""],
     ["{N} ran home and took {brings}. Then {he} went to see {H}, although {block}.", "{N} put {brings} into a bag and set out. It was not easy, for {block}."],
     ["\"You came all this way?\" said {H}, in a very small voice.", "{H} lay in bed and looked pale. \"It is so good to see you,\" {hhe} said."],
     ["\"I brought you {brings},\" said {N}, \"and a story as well.\"", "{N} gave {H} {brings} and sat down beside the bed."], "\n\n",
     ["{He} came the next day too, and the day after, until {H} was well.", "{N} stayed and told one story after another, and on the third day {H} could get up."],
     ["Then they went to the bridge together, as before.", "\"It was not {brings} that helped me,\" said {H}. \"It was you.\""])

plot("the fib", ANYONE,
     {("thing", "truth"): [("jug", "I broke the jug"), ("vase", "I broke the vase"), ("window", "I broke the window"), ("cup", "I broke the cup"), ("flower pot", "I broke the flower pot")],
      "blame": ["the wind", "the cat", "the rain", "a thief"]},
     ["One {time} {N} was playing in the house of {H} the {hkind}.", "{N} often played at the house of a~ {hkind} named {H}."],
     ["{He} ran too fast, and crash! The {thing} was broken.", "{He} threw a ball, and the ball hit the {thing}. It broke."], "\n\n",
     ["\"Who did that?\" asked {H}. \"It was {blame},\" said {N}.", "When {H} came in, {N} said quickly, \"It was {blame}.\""],
     ["{H} said nothing and picked up the pieces.", "\"I see,\" said {H}, and swept the floor."],
     ["But {N} had a stone in {his} belly. {He} could not eat, and {he} could not play.", "All day {N} thought about the {thing}. Even the cake did not taste good."], "\n\n",
     ["In the evening {he} went back. \"It was not {blame},\" said {N}. \"{truth}. I am sorry.\"",
      "At last {he} knocked at the door. \"{truth},\" {he} said very softly. \"It was not {blame}.\""],
     ["\"I know,\" said {H}. \"I was waiting for you.\"", "\"Thank you for telling me,\" said {H}. \"A {thing} is only a {thing}.\""],
     ["Together they mended the {thing} with glue, and the stone in {his} belly was gone.", "{N} felt as light as a feather, and they had tea."])

plot("the trade", WALKERS + DIGGERS,
     {("first", "second", "third"): [("button", "egg", "cheese"), ("feather", "candle", "loaf of bread"), ("nut", "spoon", "pot of jam"),
                                     ("ribbon", "fishing hook", "big fish"), ("pebble", "apple", "pumpkin")]},
     ["{N} had no money, only a~ {first}.", "All that {N} had in {his} pocket was a~ {first}."],
     ["But {he} wanted to go to the market, and so {he} went.", "With the {first} {he} went to the market."], "\n\n",
     ["A goose wanted the {first} and gave {him} a~ {second} for it.", "\"I need a~ {first},\" said the tailor. \"I will give you a~ {second}.\""],
     ["The cook needed a~ {second}, and {N} got a~ {third} for it.", "\"That {second} is just what I want,\" said the cook, and gave {him} a~ {third}."],
     ["{N} was proud. \"From a~ {first} to a~ {third} in one day!\"", "\"Now I am rich,\" said {N}, and carried the {third} home."], "\n\n",
     ["On the way {he} met a~ {hkind} named {H}, who had eaten nothing all day.", "At the crossroads sat {H} the {hkind}, tired and hungry."],
     ["\"What would you give me for the {third}?\" asked {N}. \"I have nothing,\" said {H}.", "\"That is a fine {third},\" said {H}, \"but I have nothing to trade.\""],
     ["\"Then let us share it,\" said {N}, and they ate the {third} together.", "{N} sat down and gave {H} half of the {third}."],
     ["It was the best trade of the day, because {N} got a friend for it.", "\"Now you have traded it for a friend,\" said {H}."])

plot("the nest guest", FLIERS,
     {"where": ["in {his} hat", "in {his} boot", "in the letter box", "in a flower pot", "in an old kettle"], "eggs": ["two", "three", "four", "five"], "colour": ["blue", "white", "green", "brown"]},
     ["One spring {time} {N} found a nest {where}.", "When spring came, somebody had built a nest {where}."],
     ["In it lay {eggs} {colour} eggs, and on them sat a~ {hkind} named {H}.", "A~ {hkind} named {H} sat there on {eggs} {colour} eggs."], "\n\n",
     ["\"That is a strange place for a nest,\" said {N}. \"It is warm and dry,\" said {H}.", "\"Do you want me to go?\" asked {H}. \"No, no,\" said {N}. \"Please stay.\""],
     ["So {N} walked on tiptoe and told everybody to be quiet.", "From then on {N} went past very softly and kept the cat away."],
     ["When it rained, {he} held a leaf over {H}. When it was dry, {he} brought water.", "Every day {he} brought {H} some crumbs and a little water."], "\n\n",
     ["After two weeks the eggs broke, and {eggs} small birds called for food.", "One {weather} {time} there was a soft crack, and then {eggs} little heads looked out."],
     ["\"They shall know your name before they know mine,\" said {H}.", "The first thing they saw was {N}, and {he} was very proud."],
     ["In summer all {eggs} of them learned to fly, and they flew in rings around {N} and {H}.",
      "When they could fly, all {eggs} of them came back to visit {N} and {H}."])

plot("the well", DIGGERS,
     {"dry": ["the stream was dry", "there had been no rain for weeks", "the pond was only mud"], "plants": ["beans", "flowers", "cabbages", "peas", "roses"]},
     ["That summer was hot, and {dry}.", "It was so hot that summer that {dry}."],
     ["The {plants} in the garden of {N} hung their heads.", "{N} was worried about the {plants} in the garden."], "\n\n",
     ["{He} carried water from the river, one cup after another, but it was too far.", "Every {time} {he} went to the river with a bucket, and every evening {he} was tired."],
     ["\"There is water under your feet,\" said a~ {hkind} named {H}. \"I can smell it.\"", "One day a~ {hkind} named {H} came out of the ground. \"Why do you walk so far?\" {hhe} asked. \"There is water down here.\""],
     ["\"Can you show me?\" asked {N}.", "\"Where?\" cried {N}. \"Please show me!\""],
     ["{H} dug, and {N} carried the earth away. They dug for three days.", "{H} dug with {hhis} strong paws, and {N} pulled up the earth in a bucket."], "\n\n",
     ["On the third day the ground was wet, and then there was water, clear and cold.", "Then {H} gave a shout. Cold water was coming out of the ground."],
     ["The {plants} had a drink, and {N} and {H} had one too.", "Soon the {plants} stood up again, and they grew taller than before."])


# ---------------------------------------------------------------------------------------------

def article(text):
    """Turns every "a~ word" into "a word" or "an word"."""
    text = re.sub(r"\b([Aa])~ (?=[aeiouAEIOU])", r"\1n ", text)
    return text.replace("~", "")


def is_held_out(name, kind):
    return zlib.crc32(f"{name} the {kind}".encode()) % 10 == 0


class Story:
    """One story: .request (what someone would ask), .text, and the facts in .facts."""

    def __init__(self, rng, held_out=False):
        while True:
            she = rng.random() < 0.5
            name, kind = rng.choice(HEROES_F if she else HEROES_M), rng.choice(HERO_KINDS)
            if is_held_out(name, kind) == held_out:
                break
        if kind == "child":
            kind = "girl" if she else "boy"
        self.plot = rng.choice(list(PLOTS))
        helpers, blanks, steps = PLOTS[self.plot]
        her = rng.random() < 0.5
        f = {"N": name, "kind": kind, "H": rng.choice(HELPERS_F if her else HELPERS_M), "hkind": rng.choice(helpers),
             "he": "she" if she else "he", "him": "her" if she else "him", "his": "her" if she else "his",
             "hhe": "she" if her else "he", "hhis": "her" if her else "his",
             "trait": rng.choice(TRAITS), "home": rng.choice(HOMES), "weather": rng.choice(WEATHERS), "time": rng.choice(TIMES)}
        f["He"] = f["he"].capitalize()
        for key, values in blanks.items():
            value = rng.choice(values)
            for k, v in zip(key, value) if isinstance(key, tuple) else [(key, value)]:
                f[k] = v.format(**f)
        if f.get("skill") == "swim" and kind in ("frog", "otter", "duckling"):  # they know how to
            f.update(skill="sing", doing="singing", did="sang so well that the birds stopped to listen")
        if "block" in f:
            f["Block"] = f["block"][0].upper() + f["block"][1:]
        parts = [rng.choice(OPENINGS)] + [s if isinstance(s, str) else rng.choice(s) for s in steps] + [rng.choice(ENDINGS)]
        self.opening = article(parts[0].format(**f))
        self.text = re.sub(r" *\n\n *", "\n\n", article(" ".join(p.format(**f) for p in parts if p)))
        self.request = article(rng.choice(REQUESTS).format(**f))
        self.facts = f


def stories(count, seed, held_out=False):
    """That many different stories."""
    rng, seen = random.Random(f"{seed} {held_out}"), set()
    while len(seen) < count:
        story = Story(rng, held_out)
        if story.text not in seen:
            seen.add(story.text)
            yield story


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--held-out", action="store_true", help="only heroes that no training story has")
    args = parser.parse_args()
    for story in stories(args.count, args.seed, args.held_out):
        print(f"[{story.plot}] {story.request}\n\n{story.text}\n\n---\n")


if __name__ == "__main__":
    main()
