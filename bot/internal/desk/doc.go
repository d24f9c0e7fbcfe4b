// Package desk is where bot and people meet, whatever it is about: cards and forms that wait for an answer, questions that something
// waits for, notices, the record of what was asked for, refusals in words, and what goes on after a reply was given. It knows nothing
// of servers, and decides nothing but who may answer a card.
package desk
