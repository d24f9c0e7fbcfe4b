// Package link is the wire to Discord: requests over REST, and the gateway's events. It is all that knows discordgo.
package link
